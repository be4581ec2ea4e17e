package series

import (
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// DatabaseBytesMax is the longest name of a database that is taken from clients.
const DatabaseBytesMax = 128

// ErrDatabase marks a name that no database can have.
var ErrDatabase = errors.New("not a valid name of a database")

var errDots = fmt.Errorf("%w: dots alone name a folder", ErrDatabase)

// ValidateDatabase checks the name of a database that a client gave. Names are 1 to
// DatabaseBytesMax bytes of printable UTF-8 without '/', '\' and '*', and neither "." nor
// "..": what InfluxDB takes, and what fits into a path of a URL and into files of rules. The
// empty name stands for the default database and is valid. Errors: ErrDatabase, which says
// what is wrong.
func ValidateDatabase[T string | []byte](name T) error {
	if len(name) > DatabaseBytesMax {
		return fmt.Errorf("%w: it has %d bytes, at most %d are taken", ErrDatabase, len(name), DatabaseBytesMax)
	}
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c >= utf8.RuneSelf:
			return validateRunes(string(name))
		case c < ' ' || c == 0x7f || c == '/' || c == '\\' || c == '*':
			return fmt.Errorf("%w: %q has %q, which names cannot have", ErrDatabase, string(name), string(rune(c)))
		}
	}
	if string(name) == "." || string(name) == ".." {
		return errDots
	}
	return nil
}

func validateRunes(name string) error {
	for i, r := range name {
		if r == utf8.RuneError || !unicode.IsPrint(r) || r == '/' || r == '\\' || r == '*' {
			return fmt.Errorf("%w: %q has a character at byte %d that names cannot have", ErrDatabase, name, i)
		}
	}
	return nil
}
