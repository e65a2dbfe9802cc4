"""Programs of other frameworks, moved. See docs/migrate/index.md."""

from legato.compat.migration.facades import FACADES, TITLES, covered_names
from legato.compat.migration.neighbours import own_modules
from legato.compat.migration.programs import Migration, Name, migrated
from legato.compat.migration.uses import Use

__all__ = ["FACADES", "TITLES", "Migration", "Name", "Use", "covered_names", "migrated", "own_modules"]
