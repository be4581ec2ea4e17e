// Package tenancy defines what holds for each database: how long its samples are kept, how
// many series it may have, how fast it may be written, and what its queries may cost.
//
// Rules are a value, parsed from a YAML file (README.md); who asks them needs no lock and
// does no I/O. Nodes ask RetentionOf and LimitsOf when they create series and apply
// retention, routers when they take samples and run queries. A File follows the file.
//
// What the rules do not say is 0 in their answers: the process's own flags hold. What they
// say to be without a bound is Unlimited. The default database is "", which files call
// "default".
package tenancy
