"""Pictures without data: what a VQA model believes about them, and how consistent it is."""
