package transport

import (
	"crypto/tls"
	"io"
	"testing"
)

// With Optional a client may show nothing, but nothing false.
func TestOptionalCertificates(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	serverSide, good, bad := newSide(t), newSide(t), newSide(t)
	serverSide.set(t, ours, 10, ours)
	good.set(t, ours, 20, ours)
	bad.set(t, theirs, 30, ours)
	var c clock
	for _, optional := range []bool{false, true} {
		files := serverSide.Files
		files.Optional = optional
		server, err := open(t, files, &c, io.Discard).ServerConfig()
		if err != nil {
			t.Fatal(err)
		}
		for what, test := range map[string]struct {
			client *tls.Config
			works  bool
		}{
			"ours":   {open(t, good.Files, &c, io.Discard).ClientConfig("localhost"), true},
			"theirs": {open(t, bad.Files, &c, io.Discard).ClientConfig("localhost"), false},
			"none":   {open(t, Files{CA: good.CA}, &c, io.Discard).ClientConfig("localhost"), optional},
		} {
			if _, err := handshake(t, server, test.client); (err == nil) != test.works {
				t.Errorf("optional is %v, certificate %s: %v", optional, what, err)
			}
		}
	}
	if (Files{Optional: true}).Set() {
		t.Error("no file is named")
	}
}
