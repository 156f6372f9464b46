"""Image features, a stage of its own: computed once, stored, and read by every model.

`ConceptFeatures` trains a compact CNN on the data set itself; the others run a pretrained network.
All have `build`, which shows one line of progress and returns a `FeatureStore` of memory-mapped
files.
"""

from ivqa.features.backbones import BackboneFeatures, ResNetFeatures, VGGFeatures
from ivqa.features.concept_features import ConceptFeatures
from ivqa.features.efficientnet_lite import EfficientNetLiteFeatures
from ivqa.features.places import offered_places
from ivqa.features.store import FeatureStore
from ivqa.features.timm_models import TimmFeatures
from ivqa.features.transformers_models import TransformersFeatures

__all__ = [
    "BackboneFeatures",
    "ConceptFeatures",
    "EfficientNetLiteFeatures",
    "FeatureStore",
    "ResNetFeatures",
    "TimmFeatures",
    "TransformersFeatures",
    "VGGFeatures",
    "offered_places",
]
