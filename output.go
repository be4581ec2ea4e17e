package main

import "github.com/spf13/pflag"

// outputSetting says for whom a command writes.
type outputSetting struct{ output oneOf }

func (s *outputSetting) define(f *pflag.FlagSet) {
	s.output = oneOf{value: "table", words: []string{"table", "json"}}
	f.Var(&s.output, "output", "a table for people, or JSON for programs")
}

func (s *outputSetting) isJSON() bool { return s.output.value == "json" }
