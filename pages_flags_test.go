package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/spf13/pflag"
)

// TestPageFlags holds that the flags that the pages name exist.
func TestPageFlags(t *testing.T) {
	known := map[string]bool{"help": true}
	for commands := newRootCommand().Commands(); len(commands) > 0; commands = commands[1:] {
		commands[0].Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		commands = append(commands, commands[0].Commands()...)
	}
	for _, page := range []string{"README.md", "GUIDE.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		own := regexp.MustCompile("(?:helm|kubectl) [^\n`]*").ReplaceAll(text, nil) // other programs have flags, too
		for _, match := range regexp.MustCompile(`--([a-z][a-z-]+)`).FindAllSubmatch(own, -1) {
			if name := string(match[1]); !known[name] {
				t.Errorf("%s: there is no flag --%s", page, name)
			}
		}
	}
}
