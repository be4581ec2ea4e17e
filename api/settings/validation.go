package settings

import (
	"errors"
	"fmt"
)

// Validation collects what is wrong with settings, a line for each problem.
type Validation struct{ problems []error }

// Refuse notes that a flag cannot have a value.
func (v *Validation) Refuse(flag, value, reason string) {
	v.problems = append(v.problems, fmt.Errorf("--%s: invalid value %q: %s", flag, value, reason))
}

// Add notes a problem that is of no single flag.
func (v *Validation) Add(err error) { v.problems = append(v.problems, err) }

// Between refuses a number below least or above most.
func (v *Validation) Between(flag string, value, least, most Count) {
	if value < least || value > most {
		v.Refuse(flag, value.String(), fmt.Sprintf("expected %d to %d", least, most))
	}
}

// SizeBetween refuses a size below least or above most.
func (v *Validation) SizeBetween(flag string, value, least, most Bytes) {
	if value < least || value > most {
		v.Refuse(flag, value.String(), fmt.Sprintf("expected %v to %v", &least, &most))
	}
}

// NotZero refuses 0.
func (v *Validation) NotZero(flag string, value Duration) {
	if value == 0 {
		v.Refuse(flag, "0", "expected more than 0")
	}
}

// Err returns all problems, or nil.
func (v *Validation) Err() error { return errors.Join(v.problems...) }
