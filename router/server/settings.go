package server

import "github.com/tickmesh/tickmesh/api/settings"

// Settings are those of a process that clients talk to.
type Settings struct {
	Listeners
	WriteLimits
	QueryLimits
	QueryHabits
	ReplicaFlags
	RuleFlags
	Access
	settings.PublicTLS
	settings.Operation
}

// Validate refuses what cannot work together.
func (s *Settings) Validate(v *settings.Validation) {
	s.Operation.Validate(v)
	s.PublicTLS.Validate(v, s.AuthFile)
	s.WriteLimits.Validate(v)
	s.RuleFlags.Validate(v)
	s.ReplicaFlags.Validate(v)
	s.Access.Validate(v, s.UDPAddr)
	validateListeners(v, s.listeners())
	if s.graphiteTemplates != "" && s.GraphiteAddr == "" {
		v.Refuse("graphite-templates", s.graphiteTemplates, "expected --graphite-addr, too")
	}
}
