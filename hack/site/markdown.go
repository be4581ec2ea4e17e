package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

const fence = "```"

// mapLinks returns a page in Markdown whose links and images lead to what replace returns for their targets. Code
// stays as it is.
func mapLinks(page string, replace func(target string) string) string {
	var out strings.Builder
	for _, part := range splitFences(page) {
		if part.code {
			out.WriteString(part.text)
			continue
		}
		for rest := part.text; rest != ""; {
			at := strings.IndexAny(rest, "`]")
			if at < 0 {
				out.WriteString(rest)
				break
			}
			out.WriteString(rest[:at])
			rest = rest[at:]
			length := len(rest) - len(strings.TrimLeft(rest, "`"))
			target, isLink := linkTarget(rest)
			switch {
			case length > 0:
				length = codeLength(rest, length)
				out.WriteString(rest[:length])
			case isLink:
				length = len("](") + len(target)
				out.WriteString("](" + replace(target))
			default:
				length = 1
				out.WriteString(rest[:length])
			}
			rest = rest[length:]
		}
	}
	return out.String()
}

// linkTarget returns where a link leads whose text ends at the beginning of rest.
func linkTarget(rest string) (string, bool) {
	after, ok := strings.CutPrefix(rest, "](")
	end := strings.IndexAny(after, ") \t\n")
	return after[:max(end, 0)], ok && end > 0
}

// codeLength returns the length of the code that rest begins with, whose fence has so many backticks; only theirs, if
// nothing closes it in its paragraph.
func codeLength(rest string, ticks int) int {
	paragraph, _, _ := strings.Cut(rest, "\n\n")
	for at := ticks; at < len(paragraph); {
		next := strings.IndexByte(paragraph[at:], '`')
		if next < 0 {
			break
		}
		at += next
		length := len(paragraph[at:]) - len(strings.TrimLeft(paragraph[at:], "`"))
		if length == ticks {
			return at + length
		}
		at += length
	}
	return ticks
}

// part is a stretch of a page: a block of code with its fences, or what is between two of them.
type part struct {
	text string
	code bool
}

func splitFences(page string) (parts []part) {
	var open strings.Builder
	inside := false
	end := func() {
		if open.Len() > 0 {
			parts = append(parts, part{open.String(), inside})
			open.Reset()
		}
	}
	for line := range strings.Lines(page) {
		switch isFence := strings.HasPrefix(strings.TrimSpace(line), fence); {
		case isFence && !inside:
			end()
			inside = true
			open.WriteString(line)
		case isFence:
			open.WriteString(line)
			end()
			inside = false
		default:
			open.WriteString(line)
		}
	}
	end()
	return parts
}

var (
	headingLine = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#* *$`)
	linkInText  = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
)

// anchorsOf returns the anchors of a page's headings, as GitHub and the site make them.
func anchorsOf(page string) map[string]bool {
	anchors := map[string]bool{}
	for _, part := range splitFences(page) {
		if part.code {
			continue
		}
		for _, heading := range headingLine.FindAllStringSubmatch(part.text, -1) {
			anchor := anchorOf(heading[1])
			for i, first := 1, anchor; anchors[anchor]; i++ {
				anchor = fmt.Sprint(first, "-", i)
			}
			anchors[anchor] = true
		}
	}
	return anchors
}

func anchorOf(heading string) string {
	heading = strings.ToLower(linkInText.ReplaceAllString(heading, "$1"))
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return r
		}
		return -1
	}, heading)
}
