"""Image features: a concept predictor, torchvision backbones, and the memory-mapped store."""

from ivqa.features.backbones import BackboneFeatures, ResNetFeatures, VGGFeatures
from ivqa.features.concept_features import ConceptFeatures
from ivqa.features.places import offered_places
from ivqa.features.store import FeatureStore

__all__ = [
    "BackboneFeatures",
    "ConceptFeatures",
    "FeatureStore",
    "ResNetFeatures",
    "VGGFeatures",
    "offered_places",
]
