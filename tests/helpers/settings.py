"""Values of algorithms in tests."""

from types import SimpleNamespace

SETTINGS = SimpleNamespace(
    lr=0.01,
    lr_end=0.0,
    muon_lr=None,
    adam_eps=1e-5,
    entropy=0.05,
    entropy_end=0.0,
    max_grad_norm=0.5,
    credit="mini",
    minibatches=2,
    normalise_advantage=True,
    epochs=2,
    clip=0.2,
    max_kl=None,
    gae_lambda=0.95,
    critic_coeff=0.5,
    baseline=True,
    min_visit_probability=0.0,
    ignored_gradient_share=0.0,
)
