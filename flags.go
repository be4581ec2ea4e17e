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

// frontSettings are those of a process that clients talk to.
type frontSettings struct {
	listenerSettings
	writeLimitSettings
	queryLimitSettings
	accessSettings
	clientTLSSettings
	operationSettings
}

func (s *frontSettings) validate(v *validation) {
	s.operationSettings.validate(v)
	s.clientTLSSettings.validate(v, s.authFile)
	s.writeLimitSettings.validate(v)
	s.accessSettings.validate(v, s.udpAddr)
	v.addresses(s.listeners())
}

// standaloneSettings are the flags of `tickmesh standalone`.
type standaloneSettings struct {
	frontSettings
	storageSettings
	seriesLimitSettings
	shards, nodes, replication count
}

func (s *standaloneSettings) define(f *pflag.FlagSet) {
	f.SortFlags = false
	s.listenerSettings.define(f)
	s.shards = shardsDefault
	f.Var(&s.shards, "shards", "shards of a new data folder; a used one keeps its own number")
	s.nodes, s.replication = 1, 1
	f.Var(&s.nodes, "nodes", "storage nodes in this process; more than 1 make a cluster on the loopback, with an etcd of its own")
	f.Var(&s.replication, "replication", "copies of each shard, 1 to 3, of a new data folder with more than one node")
	group(f, headingStorage, "shards", "nodes", "replication")
	s.storageSettings.define(f)
	s.seriesLimitSettings.define(f)
	s.writeLimitSettings.define(f)
	s.queryLimitSettings.define(f)
	s.accessSettings.define(f)
	s.clientTLSSettings.define(f)
	s.operationSettings.define(f)
}

// standaloneNodesMax bounds the nodes of one process: each has files and memory of its own.
const standaloneNodesMax = 16

// validate checks what a flag's own type cannot: bounds, and flags against each
// other. The error has a line for each problem.
func (s *standaloneSettings) validate() error {
	var v validation
	v.between("shards", s.shards, 1, shardsMax)
	v.between("nodes", s.nodes, 1, standaloneNodesMax)
	v.between("replication", s.replication, 1, min(replicationMax, max(s.nodes, 1)))
	s.storageSettings.validate(&v)
	s.frontSettings.validate(&v)
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
