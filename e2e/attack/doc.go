// Package attack attacks the real binary, as a stranger and as a user without rights, while
// a writer and a reader go about their business, and says what fell.
//
// # Scenarios
//
//	storms       malformed input on every port: random, cut, huge, deep, slow, half open, many
//	bombs        small requests that ask for much: compression, symbols of remote write, JSON,
//	             PromQL, InfluxQL, OpenTSDB, regular expressions, queries of everything
//	endpoints    each line of testdata/endpoints.txt, which lists what the product registers,
//	             as nobody, another tenant, a reader and a writer
//	forgeries    tokens that were made up, changed, taken back, or not of their OpenID Connect
//	             issuer, for this server, or of this time; guessing of passwords from many addresses
//	pages        requests as pages of other sites make a browser send them; foreign Host
//	inside       storms on the ports within a cluster, and its calls by a stranger
//	members      storms on every port of each process of a cluster with certificates of
//	             `tickmesh certs`, and calls with certificates of another authority, cluster, role,
//	             node or time, and of an authority that was taken away
//
// They run against a server with users, one without, a cluster in one process, and one of
// processes. The ports of a process are what it listens on, so that a new one fails the test.
//
// # What must hold throughout
//
// The server does not end or restart; it stays within a control group of 512 MiB; every write
// and read of the good clients is served, and reads see what was acknowledged; it ends in
// its time after SIGTERM, whatever runs; nothing that the attacker receives, headers and errors
// too, holds one of the secrets that the names and values of the victim and of the good clients
// are made of, nor do good clients receive those of the others; and the victim's data are
// unchanged. A bomb counts only if it is answered.
//
// # Who has the processors
//
// Attackers and good clients stand for other machines, so that neither competes with the server for processors.
// Attackers are this process, of SCHED_IDLE: they have what is left. Good clients are a process of
// their own, of SCHED_RR where that is allowed: they do not wait for a processor before they look at the time.
//
// # Running
//
//	go test ./e2e/attack                          about two and a half minutes on two cores
//	go test ./e2e/attack -args -long              longer storms, and the P99 of the good
//	                                              clients within three times that of calm
//	go test ./e2e/attack -run 'TestWithUsers/storm' -args -long    one phase of it
//	go test ./e2e/attack -args -seed 42           what is sent again as it was sent then
//
// Each run prints its seed. What a machine does not let the attack do is on the list in
// skips_test.go with the reason, and fails where it is not. RESULTS.md has the figures of the
// long form, and which phases do not hold what they should.
package attack
