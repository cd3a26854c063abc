"""All layers of one kind of attention at once: their mean, rollout, flow, and what the answer hangs on."""

import numpy as np
from numpy.typing import NDArray

from regard.attention.rollout import rollout
from regard.decoding.generate import evaluating
from regard.errors import UsageError
from regard.explorer.looking import Session
from regard.inspect import flow, gradient_weighted, relevance

MOST_TOKENS = {"all": 512, "rollout": 512, "flow": 40, "gradient": 512}  # a flow is found anew for every pair
TITLES = {
    "all": "mean of layers and heads",
    "rollout": "rollout through all layers",
    "flow": "flow through all layers",
    "gradient": "gradient × attention through all layers",
}


def through(session: Session, kind: str, how: str) -> NDArray[np.float32]:
    """[queries, keys]; each row of `gradient` is divided by its sum."""
    names = [name for name in session.attentions if session.subject.kind_of(name) == kind]
    shapes = {(session.attentions[name].queries, session.attentions[name].keys) for name in names}
    if len(shapes) != 1:
        raise UsageError(f"the attentions called {kind!r} have no shape in common: there is nothing to put together")
    ((queries, keys),) = shapes
    if max(queries, keys) > MOST_TOKENS[how]:
        raise UsageError(f"{TITLES[how]} is for at most {MOST_TOKENS[how]} tokens here, not for {max(queries, keys)}")
    if how == "all":
        return _means(session, names).mean(0, dtype=np.float64).astype(np.float32)
    if queries != keys:
        raise UsageError(f"{kind!r} is no stack of self-attentions: {how} goes through layers of one text")
    if how == "gradient":
        return _hanging(session, names)
    stack = _means(session, names)[:, None]
    return (rollout(stack) if how == "rollout" else flow(stack)).astype(np.float32)


def _means(session: Session, names: list[str]) -> NDArray[np.float32]:
    """[layers, queries, keys]: the mean of each layer's heads."""
    known = [session.attentions[name] for name in names]
    return np.stack([each.rows(range(each.queries)).mean(0) for each in known])


def _hanging(session: Session, names: list[str]) -> NDArray[np.float32]:
    subject = session.subject
    if not subject.explains:
        raise UsageError("this model says nothing whose gradient could be followed back")
    with evaluating(subject.model):
        positive = gradient_weighted(subject.model, subject.value, names).positive
    total = relevance(np.stack([positive[name][0] for name in names]))
    return (total / total.sum(-1, keepdims=True)).astype(np.float32)
