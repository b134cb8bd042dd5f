"""DReST for language models: exact if the answer is one of a few options, sampled if it is a text.

Needs the extra ``drest_torch[language]``; nothing else in the project imports it.
"""
