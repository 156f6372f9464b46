"""Image features, which are computed once, stored, and read by every model.

`ConceptFeatures` trains a compact CNN on the data set itself; most others run a pretrained network.
All have `build`, which shows one line of progress and returns a `FeatureStore` of memory-mapped
files. `TrainableFeatures` stores pixels alone; models compute and train the features themselves.
"""

from ivqa.features.concept_features import ConceptFeatures
from ivqa.features.pixel_store import PixelStore
from ivqa.features.positions import offered_places
from ivqa.features.pretrained.backbones import BackboneFeatures, ResNetFeatures, VGGFeatures
from ivqa.features.pretrained.efficientnet_lite import EfficientNetLiteFeatures
from ivqa.features.pretrained.image_networks import CompactNetwork, TimmNetwork
from ivqa.features.pretrained.pretrained_concepts import PretrainedConcepts
from ivqa.features.pretrained.timm_models import TimmFeatures
from ivqa.features.pretrained.transformers_models import TransformersFeatures
from ivqa.features.store import FeatureStore
from ivqa.features.trainable import TrainableFeatures

__all__ = [
    "BackboneFeatures",
    "CompactNetwork",
    "ConceptFeatures",
    "EfficientNetLiteFeatures",
    "FeatureStore",
    "PixelStore",
    "PretrainedConcepts",
    "ResNetFeatures",
    "TimmFeatures",
    "TimmNetwork",
    "TrainableFeatures",
    "TransformersFeatures",
    "VGGFeatures",
    "offered_places",
]
