package process

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
)

// keyFiles writes an identity and a pair of keys for signatures, and returns the recipient.
func keyFiles(t *testing.T, dir string) (recipient string) {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	privateDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	publicDER, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"identity":  []byte(identity.String() + "\n"),
		"recipient": []byte("# ours\n" + identity.Recipient().String() + "\n"),
		"sign.pem":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateDER}),
		"pub.pem":   pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return identity.Recipient().String()
}

// TestBackupWithKeys makes, lists, verifies and restores encrypted and signed backups, and
// tries without the keys.
func TestBackupWithKeys(t *testing.T) {
	dir := t.TempDir()
	recipient, target := keyFiles(t, dir), filepath.Join(dir, "backups")
	file := func(name string) string { return filepath.Join(dir, name) }
	s := startServer(t, filepath.Join(dir, "data"))
	var lines strings.Builder
	for i := range 300 { // so much that an object is more than the header of its encryption
		fmt.Fprintf(&lines, "cpu,host=a value=%d %d\n", i*i*7919%10007, (1700000000+i)*1e9)
	}
	if code, text := post(t, s.url("/write"), lines.String()); code != 204 {
		t.Fatal(code, text)
	}
	writing := []string{"--addr", s.addr["grpc"], "--sign-key", file("sign.pem")}
	reading := []string{"--identity", file("identity"), "--verify-key", file("pub.pem")}
	for _, test := range []struct {
		want      string // of what is written; a failure, if it begins with !
		arguments []string
	}{
		{"300 samples", slices.Concat([]string{"backup", target, "--name", "one", "--encrypt-to", recipient}, writing)},
		{"1 of 1 parts were there", slices.Concat([]string{"backup", target, "--name", "two", "--incremental", "--encrypt-to", file("recipient")}, writing, reading)},
		{"!give --identity", slices.Concat([]string{"backup", target, "--incremental", "--encrypt-to", recipient}, writing)},
		{"complete", slices.Concat([]string{"backup", "list", target}, reading)},
		{"unreadable", []string{"backup", "list", target}},
		{"is whole", slices.Concat([]string{"backup", "verify", target, "--restore", dir}, reading)},
		{"!encrypted for others", []string{"backup", "verify", target}},
		{"300 were there", slices.Concat([]string{"restore", target, "--addr", s.addr["grpc"]}, reading)},
		{"!give --identity", []string{"restore", target, "--name", "one", "--addr", s.addr["grpc"]}},
		{"!encrypted for others", []string{"backup", "prune", target, "--keep", "1"}},
		{"", nil}, // somebody who has the recipient adds a backup, below
		{"!not signed by a trusted key", slices.Concat([]string{"restore", target, "--addr", s.addr["grpc"]}, reading)},
		{"backup two deleted", slices.Concat([]string{"backup", "prune", target, "--name", "two,three"}, reading)},
	} {
		if test.arguments == nil {
			if code, _, stderr := run(t, nil, "backup", target, "--name", "three", "--addr", s.addr["grpc"], "--encrypt-to", recipient); code != 0 {
				t.Fatal(code, stderr)
			}
			continue
		}
		code, stdout, stderr := run(t, nil, test.arguments...)
		want, fails := strings.CutPrefix(test.want, "!")
		if (code != 0) != fails || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%q: %d %s%s, want %q", test.arguments, code, stdout, stderr, test.want)
		}
	}
}
