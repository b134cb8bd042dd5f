"""DReST for language models: exact where the answer is one of a few options, sampled where it is text.

Needs the extra ``drest_torch[language]``; nothing else in the project imports it.
"""
