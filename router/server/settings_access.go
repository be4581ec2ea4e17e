package server

import (
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/auth"
	"github.com/tickmesh/tickmesh/api/loopback"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/api/settings"
)

// Access are the settings of who may do what, and which databases ports mean.
type Access struct {
	process.DatabaseRuleFlags
	auth.Flags
	process.AuditFlags
	putDatabase, lineDatabase, graphiteDatabase, udpDatabase string
	udpUser                                                  string
	databaseFrom                                             settings.Choice
	databasesJoined                                          bool
}

// fromHeader reports whether only the header names databases.
func (s *Access) fromHeader() bool { return s.databaseFrom.Value == "header" }

// Define defines the flags, below HeadingAccess.
func (s *Access) Define(f *pflag.FlagSet) {
	s.DatabaseRuleFlags.Define(f)
	s.Flags.Define(f)
	f.StringVar(&s.udpUser, "udp-user", "", "`user` whose rights all datagrams have; needed for UDP with --auth-file")
	s.databaseFrom = settings.Choice{Value: "any", Words: []string{"any", "header"}}
	f.Var(&s.databaseFrom, "database-from", "what names the database of a request: parameter, path and header, which must agree, or the header X-Scope-OrgID only")
	f.BoolVar(&s.databasesJoined, "tenant-federation", false, "let PromQL read several databases at once, named a|b in X-Scope-OrgID; then | is part of no database's name")
	s.AuditFlags.Define(f)
	f.StringVar(&s.putDatabase, "put-database", "default", "`name` of the database of put lines over TCP")
	f.StringVar(&s.lineDatabase, "line-database", "default", "`name` of the database of line protocol over TCP")
	f.StringVar(&s.graphiteDatabase, "graphite-database", "default", "`name` of the database of what comes from Graphite's clients")
	f.StringVar(&s.udpDatabase, "udp-database", "default", "`name` of the database of datagrams")
	settings.Group(f, settings.HeadingAccess, "udp-user", "database-from", "tenant-federation", "put-database", "line-database", "graphite-database", "udp-database")
}

// Validate refuses names that cannot be, and datagrams at udp whose sender nobody could know.
func (s *Access) Validate(v *settings.Validation, udp settings.Address) {
	for flag, name := range map[string]string{
		"put-database": s.putDatabase, "line-database": s.lineDatabase, "graphite-database": s.graphiteDatabase, "udp-database": s.udpDatabase,
	} {
		if err := series.ValidateDatabase(name); err != nil {
			v.Refuse(flag, name, err.Error())
		}
	}
	switch {
	case s.AuthFile != "" && udp != "" && s.udpUser == "":
		v.Refuse("udp-addr", string(udp), "datagrams cannot show who sends them: name a user of --auth-file by --udp-user, or switch UDP off")
	case s.AuthFile == "" && s.udpUser != "":
		v.Refuse("udp-user", s.udpUser, "expected --auth-file, too")
	}
}

// exposed returns the addresses that others than this machine can reach.
func (s *Listeners) exposed() (all []string) {
	for _, l := range s.ofClients() {
		if l.address != "" && !loopback.IsAddress(string(l.address)) {
			all = append(all, "--"+l.flag+" "+string(l.address))
		}
	}
	return all
}
