package settings

import "github.com/spf13/pflag"

// Output is the setting of whether a command writes for people or for programs.
type Output struct{ format Choice }

// Define defines the flag.
func (s *Output) Define(f *pflag.FlagSet) {
	s.format = Choice{Value: "table", Words: []string{"table", "json"}}
	f.Var(&s.format, "output", "a table for people, or JSON for programs")
}

// IsJSON reports whether programs read what is written.
func (s *Output) IsJSON() bool { return s.format.Value == "json" }
