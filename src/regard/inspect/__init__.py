"""What weights alone do not say.

    steps, watch          one query of one head, stage by stage, with the numbers of a real pass
    heads_off             what if a head were not there?
    head_importance       what every head is worth to a data set
    rollout, flow         attention followed through all layers
    gradient_weighted     which weights the answer hangs on
    logit_lens            what a model would say after each of its layers
    beam_tree             every hypothesis a beam search kept, pruned or finished, and why

All of it works from outside: models, kernels and searches run as they always do. Results are frozen dataclasses of
numpy arrays with `.as_dict()` for JSON. What attention pays to a word is not yet why the model said what it said: pair
every weight with an effect.
"""

from regard.attention.rollout import rollout
from regard.inspect.beams import BeamNode, BeamTree, beam_tree, search_tree
from regard.inspect.importance import HeadImportance, head_importance, importance
from regard.inspect.lens import LogitLens, logit_lens
from regard.inspect.stages import Stage
from regard.inspect.steps import Seen, Steps, steps, watch
from regard.inspect.switching import head_means, heads_off
from regard.inspect.through_layers import GradientWeighted, flow, gradient_weighted, relevance, stacked

__all__ = [
    "BeamNode",
    "BeamTree",
    "GradientWeighted",
    "HeadImportance",
    "LogitLens",
    "Seen",
    "Stage",
    "Steps",
    "beam_tree",
    "flow",
    "gradient_weighted",
    "head_importance",
    "head_means",
    "heads_off",
    "importance",
    "logit_lens",
    "relevance",
    "rollout",
    "search_tree",
    "stacked",
    "steps",
    "watch",
]
