"""Other frameworks' names over Legato's native API: move by changing an import."""


class MeansNothingHere(UserWarning):
    """Something that a program asked for in its old framework, accepted and without effect here. Told once for each name."""
