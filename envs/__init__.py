"""The worlds: levels, their rules, exact solutions, and environments for TorchRL and Gymnasium."""

if __name__ != "drest_torch.envs":
    raise ImportError(
        "the worlds are imported as drest_torch.envs, also inside the repository, so that there is one copy"
    )
