package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

const (
	headingListeners   = "Listeners (empty switches one off)"
	headingStorage     = "Storage"
	headingWriteLimits = "Limits of writes"
	headingQueryLimits = "Limits of queries (0: none)"
	headingOperation   = "Operation"
)

func headings() []string {
	return []string{headingListeners, headingStorage, headingWriteLimits, headingQueryLimits, headingOperation}
}

// standaloneSettings are the flags of `tickmesh standalone`.
type standaloneSettings struct {
	listenerSettings
	storageSettings
	seriesLimitSettings
	writeLimitSettings
	queryLimitSettings
	operationSettings
}

func (s *standaloneSettings) define(f *pflag.FlagSet) {
	f.SortFlags = false
	s.listenerSettings.define(f)
	s.storageSettings.define(f)
	s.seriesLimitSettings.define(f)
	s.writeLimitSettings.define(f)
	s.queryLimitSettings.define(f)
	s.operationSettings.define(f)
}

// validate checks what a flag's own type cannot: bounds, and flags against each
// other. The error has a line for each problem.
func (s *standaloneSettings) validate() error {
	var v validation
	s.storageSettings.validate(&v)
	s.operationSettings.validate(&v)
	s.writeLimitSettings.validate(&v)
	v.addresses(s.listeners())
	return v.err()
}

// validation gathers what is wrong with settings, a line for each problem.
type validation struct{ problems []error }

func (v *validation) refuse(flag, value, reason string) {
	v.problems = append(v.problems, fmt.Errorf("--%s: invalid value %q: %s", flag, value, reason))
}

func (v *validation) between(flag string, value, least, most count) {
	if value < least || value > most {
		v.refuse(flag, value.String(), fmt.Sprintf("expected %d to %d", least, most))
	}
}

func (v *validation) sizeBetween(flag string, value, least, most byteSize) {
	if value < least || value > most {
		v.refuse(flag, value.String(), fmt.Sprintf("expected %v to %v", &least, &most))
	}
}

func (v *validation) notZero(flag string, value span) {
	if value == 0 {
		v.refuse(flag, "0", "expected more than 0")
	}
}

func (v *validation) err() error { return errors.Join(v.problems...) }
