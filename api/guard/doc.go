// Package guard bounds what a text from outside may cost before anything parses it: every
// query of every dialect, and every regular expression.
//
// Parsers, printers and evaluators of expressions call themselves once for each level, and a
// stack that overflows ends the process: no recover catches it. Several of them, and those of
// libraries, take time that grows with the square or the cube of the text. A regular expression
// of 30 KB can ask for a hundred megabytes. None of this can be cancelled once it runs, so it has
// to be small from the start. A dialect reads its text with its own lexer, which is linear, tells
// a Meter what it sees, and parses only what the Meter lets pass:
//
//	m, err := guard.NewMeter(len(text))
//	for each token { err = m.Open(), m.Token(), m.Close() or m.Regexp(expression) }
//
// The limits were chosen so that the worst text that is let pass takes less than 100 ms of one
// core and a few tens of megabytes in all that runs without looking at a context; measure_test.go
// of each dialect tries the worst shapes that are known. They lie far above what people and
// generators of dashboards write, of which few have more than some kilobytes, a hundred operators and
// twenty levels.
package guard
