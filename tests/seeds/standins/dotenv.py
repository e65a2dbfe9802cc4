"""Stands in for python-dotenv, which a seed imports: there is no .env file here to load."""


def load_dotenv() -> bool:
    return False
