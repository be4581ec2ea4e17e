package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tickmesh/tickmesh/api/durable"
)

// Plan is what a checkpoint belongs to.
type Plan struct {
	Kind        string   `json:"kind"`
	Address     string   `json:"address"`
	Tenant      string   `json:"tenant,omitempty"`
	SourceDB    string   `json:"source_db,omitempty"`
	Policy      string   `json:"source_retention_policy,omitempty"`
	Destination []string `json:"destination"`
	Database    string   `json:"database"`
	Names       string   `json:"names,omitempty"` // the regular expression
	StepMs      int64    `json:"step_ms"`
	// Start and End are as they were given: what they mean, which may depend on the time, is in the checkpoint.
	Start string `json:"start"`
	End   string `json:"end"`
}

// ErrCheckpoint marks a file that does not belong to what is to be done.
var ErrCheckpoint = errors.New("the checkpoint cannot be used")

const checkpointVersion = 1

// checkpoint is how far a migration is.
type checkpoint struct {
	Version int   `json:"version"`
	Plan    Plan  `json:"plan"`
	FromMs  int64 `json:"from_ms"`
	ToMs    int64 `json:"to_ms"`

	Checking bool   `json:"checking"` // everything is copied
	WindowMs int64  `json:"window_ms"`
	Name     string `json:"name"` // the last one that is done in the window; empty: none

	Report Report `json:"report"`
}

// loadCheckpoint reads the checkpoint of a plan; nil: there is none.
func loadCheckpoint(file string, plan Plan) (*checkpoint, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var c checkpoint
	remedy := fmt.Sprintf("name another file by --checkpoint, or remove %s to begin anew", file)
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("%w: %s: %w: %s", ErrCheckpoint, file, err, remedy)
	}
	if c.Version != checkpointVersion || c.Plan.StepMs <= 0 {
		return nil, fmt.Errorf("%w: %s is none of this version: %s", ErrCheckpoint, file, remedy)
	}
	was, err := json.Marshal(c.Plan)
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	if string(was) != string(is) {
		return nil, fmt.Errorf("%w: %s is of another import, %s: %s", ErrCheckpoint, file, was, remedy)
	}
	return &c, nil
}

// save replaces the file.
func (c *checkpoint) save(file string) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.Replace(file, append(text, '\n')); err != nil {
		return fmt.Errorf("--checkpoint: %w", err)
	}
	return nil
}
