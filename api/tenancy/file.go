package tenancy

import (
	"log/slog"

	"github.com/tickmesh/tickmesh/api/rulefile"
)

// File follows a file of rules.
type File = rulefile.File[*Rules]

// OpenFile reads a file of rules for the first time; have its Run follow it. Errors:
// those of reading the file, and of Parse.
func OpenFile(path string, logger *slog.Logger) (*File, error) {
	return rulefile.Open(rulefile.Options{Kind: "databases", Path: path, Logger: logger}, Parse)
}
