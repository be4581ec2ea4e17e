package recipes

import (
	"fmt"
	"regexp"
	"strings"
)

// Block is a block of code of a page.
type Block struct {
	Language string // as its fence names it
	Text     string // lines, each with its end
	Line     int    // of its first line in the page, from 1
}

// Blocks returns the blocks of code of a page in Markdown in their order. Errors: ErrPage for a block without an end.
func Blocks(page string) ([]Block, error) {
	var list []Block
	var open *Block
	line := 0
	for text := range strings.Lines(page) {
		line++
		language, isFence := strings.CutPrefix(strings.TrimSuffix(text, "\n"), fence)
		switch {
		case isFence && open == nil:
			open = &Block{Language: language, Line: line + 1}
		case isFence && language == "":
			list = append(list, *open)
			open = nil
		case open != nil:
			open.Text += text
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%w: line %d: a block has no end", ErrPage, open.Line)
	}
	return list, nil
}

// Example is a command that a page shows in a block of the language console, in a line that begins with "$ ", and the
// answer that stands below it.
type Example struct {
	Command string
	Answer  string
	Line    int // in the page
}

// Examples returns the examples of a block. Errors: ErrPage for an answer without a command.
func (b *Block) Examples() ([]Example, error) {
	var list []Example
	line := b.Line - 1
	for text := range strings.Lines(b.Text) {
		line++
		if command, is := strings.CutPrefix(text, "$ "); is {
			list = append(list, Example{Command: strings.TrimSuffix(command, "\n"), Line: line})
		} else if len(list) == 0 {
			return nil, fmt.Errorf("%w: line %d: an answer without a command", ErrPage, line)
		} else {
			list[len(list)-1].Answer += text
		}
	}
	return list, nil
}

// Matches reports whether an answer is as shown, where … stands for any text of one line, and alone in a line for any lines.
func (e *Example) Matches(answer string) bool {
	lines := strings.Split(strings.TrimSpace(e.Answer), "\n")
	for i, line := range lines {
		if line == "…" {
			lines[i] = "(?s:.*)"
			continue
		}
		lines[i] = strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*")
	}
	return regexp.MustCompile("^" + strings.Join(lines, "\n") + "$").MatchString(strings.TrimSpace(answer))
}
