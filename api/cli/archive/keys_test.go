package archive

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
)

// testKeys are the texts of a pair of keys of each kind.
type testKeys struct {
	t                   testing.TB
	recipient, identity string
	private, public     []byte
}

func newTestKeys(t testing.TB) *testKeys {
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
	return &testKeys{
		t: t, recipient: identity.Recipient().String(), identity: identity.String(),
		private: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateDER}),
		public:  pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER}),
	}
}

// keys returns what its flags say.
func (k *testKeys) keys(encrypt, decrypt, sign, trust bool) (keys Keys) {
	k.t.Helper()
	var problems []error
	if encrypt {
		problems = append(problems, keys.EncryptTo("# a comment\n"+k.recipient+"\n"))
	}
	if decrypt {
		problems = append(problems, keys.DecryptWith(k.identity))
	}
	if sign {
		problems = append(problems, keys.SignWith(k.private))
	}
	if trust {
		problems = append(problems, keys.Trust(k.public))
	}
	if err := errors.Join(problems...); err != nil {
		k.t.Fatal(err)
	}
	return keys
}

func (k *testKeys) both() Keys { return k.keys(true, true, true, true) }

// unitsRead makes a backup of always the same samples, and returns how many units it had
// to read.
func unitsRead(t *testing.T, s Store, name string, startMs int64) int {
	t.Helper()
	// Samples enough that an object is more than the header of its encryption.
	c, random := content{}, rand.New(rand.NewPCG(1, 2))
	for _, metric := range []string{"m", "n"} {
		samples := map[int64]uint64{}
		for ms := range int64(90) {
			samples[ms] = random.Uint64()
		}
		c[string(keyOf(metric, "a"))] = samples
	}
	o := WriterOptions{Name: name, Cluster: "c", Incremental: true, ObjectBytes: 1, Now: func() time.Time { return time.UnixMilli(startMs) }}
	w, err := Begin(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	left := w.Take(c.wanted([]string{"m", "n"}))
	for _, u := range left {
		if err := w.Unit(t.Context(), "db", u.Metric, u.FromMs, u.ToMs, func(visit Visitor) error { return c.visit(u.Metric, u.FromMs, u.ToMs, visit) }); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	b, err := Load(t.Context(), s, name)
	if err == nil {
		err = b.Check(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(left)
}

// TestEncryption looks at every stored byte of an encrypted backup, and reads it with the
// right identity, another one, and none.
func TestEncryption(t *testing.T) {
	files, keys, others := memory{}, newTestKeys(t), newTestKeys(t)
	sampleBackup(t, WithKeys(files, keys.keys(true, false, false, false)))
	for key, content := range files {
		if !bytes.HasPrefix(content, []byte(ageHeader)) || bytes.Contains(content, []byte(objectMagic)) || bytes.Contains(content, []byte(`"cluster"`)) {
			t.Errorf("%s is not encrypted", key)
		}
	}
	if err := loadAndCheck(t, WithKeys(files, keys.keys(false, true, false, false))); err != nil {
		t.Error(err)
	}
	for name, s := range map[string]Store{"no identity": files, "another one": WithKeys(files, others.both())} {
		if err := loadAndCheck(t, s); !errors.Is(err, ErrEncrypted) || !strings.Contains(err.Error(), manifestKey("b")) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Load(t.Context(), s, ""); !errors.Is(err, ErrEncrypted) {
			t.Errorf("%s, the newest: %v", name, err)
		}
		before := len(files)
		if _, err := Prune(t.Context(), s, PruneOptions{Keep: 1, Now: time.Now()}); !errors.Is(err, ErrEncrypted) || len(files) != before {
			t.Errorf("%s, prune: %v, %d files of %d", name, err, len(files), before)
		}
		if _, err := Begin(t.Context(), s, WriterOptions{Name: "b", Cluster: "c", Now: time.Now}); !errors.Is(err, ErrUsed) {
			t.Errorf("%s, the same name: %v", name, err)
		}
	}
}

// TestIncrementalWithKeys takes parts from earlier backups only when they are encrypted for
// the same recipients, and signed by a trusted key where this one is signed.
func TestIncrementalWithKeys(t *testing.T) {
	files, keys, others := memory{}, newTestKeys(t), newTestKeys(t)
	var two Keys
	for _, k := range []*testKeys{keys, others} {
		if err := errors.Join(two.EncryptTo(k.recipient), two.DecryptWith(k.identity)); err != nil {
			t.Fatal(err)
		}
	}
	for n, test := range []struct {
		what string
		keys Keys
		want int
	}{
		{"plain, the first", Keys{}, 2},
		{"plain again", keys.keys(false, true, false, false), 0},
		{"encrypted, of plain", keys.keys(true, true, false, false), 2},
		{"encrypted again", keys.keys(true, true, false, false), 0},
		{"signed, of what is not", keys.both(), 2},
		{"signed again", keys.both(), 0},
		{"two recipients, of one", two, 2},
		{"two recipients again", two, 0},
	} {
		if got := unitsRead(t, WithKeys(files, test.keys), fmt.Sprint("b", n), int64(n+1)); got != test.want {
			t.Errorf("%s: %d units were read, want %d", test.what, got, test.want)
		}
	}
	if b, err := Load(t.Context(), files, "b0"); err != nil || b.Format != Format {
		t.Errorf("a plain backup beside encrypted ones: %v", err)
	}
}

// TestTampering changes and cuts each file of an encrypted and signed backup everywhere,
// and takes it away: it is refused with the name of the file.
func TestTampering(t *testing.T) {
	files, keys := memory{}, newTestKeys(t)
	s := WithKeys(files, keys.both())
	sampleBackup(t, s)
	b, err := Load(t.Context(), s, "b")
	if err != nil {
		t.Fatal(err)
	}
	needed := []string{b.Manifest.Index.key(), manifestKey("b")}
	for i := range b.index.Objects {
		needed = append(needed, b.index.Objects[i].key())
	}
	for _, key := range needed {
		intact := files[key]
		step := max(len(intact)/100, 1)
		for i := 0; i < len(intact); i += step {
			changed := bytes.Clone(intact)
			changed[i] ^= 1 << (i % 8)
			for what, content := range map[string][]byte{"changed": changed, "cut": intact[:i]} {
				files[key] = content
				if err := loadAndCheck(t, s); err == nil || !known(err) || !strings.Contains(err.Error(), key) {
					t.Errorf("%s %s at %d: %v", key, what, i, err)
				}
			}
		}
		delete(files, key)
		if err := loadAndCheck(t, s); err == nil || !known(err) {
			t.Errorf("%s is missing: %v", key, err)
		}
		files[key] = intact
	}
}

// TestForgery lets somebody who can write to the target, and has the recipient, but not
// the signing key, put other backups in the place of a signed one.
func TestForgery(t *testing.T) {
	keys, forger := newTestKeys(t), newTestKeys(t)
	trusting := keys.keys(false, true, false, true)
	fresh := func() memory {
		files := memory{}
		unitsRead(t, WithKeys(files, keys.both()), "old", 1)
		sampleBackup(t, WithKeys(files, keys.both()))
		return files
	}
	// rewrite stores the manifest of b anew, changed, as the forger can.
	rewrite := func(files memory, with Keys, change func(*Manifest)) {
		m, err := readManifest(t.Context(), WithKeys(files, trusting), "b")
		if err != nil {
			t.Fatal(err)
		}
		change(m)
		if err := writeManifest(t.Context(), WithKeys(files, with), m); err != nil {
			t.Fatal(err)
		}
	}
	var forged Keys // encrypts for the true recipient, and signs with the forger's key
	if err := errors.Join(forged.EncryptTo(keys.recipient), forged.SignWith(forger.private)); err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func(memory){
		"the old manifest in the place of the new": func(f memory) { f[manifestKey("b")] = f[manifestKey("old")] },
		"the index of the old backup": func(f memory) {
			old, err := readManifest(t.Context(), WithKeys(f, trusting), "old")
			if err != nil {
				t.Fatal(err)
			}
			rewrite(f, forged, func(m *Manifest) { m.Index = old.Index })
		},
		"signed by another":   func(f memory) { rewrite(f, forged, func(m *Manifest) { m.Samples++ }) },
		"not signed":          func(f memory) { rewrite(f, keys.keys(true, true, false, false), func(*Manifest) {}) },
		"neither, nor secret": func(f memory) { rewrite(f, Keys{}, func(*Manifest) {}) },
	} {
		files := fresh()
		s := WithKeys(files, trusting)
		if err := loadAndCheck(t, s); err != nil {
			t.Fatal(err)
		}
		spoil(files)
		if err := loadAndCheck(t, s); err == nil || !known(err) || !strings.Contains(err.Error(), manifestKey("b")) {
			t.Errorf("%s: %v", what, err)
		}
		if b, err := Load(t.Context(), s, ""); err == nil {
			t.Errorf("%s: backup %s is restored as the newest", what, b.Name)
		}
		before := maps.Clone(files)
		if _, err := Prune(t.Context(), s, PruneOptions{Keep: 1, Grace: time.Hour, Now: time.Now()}); err == nil || len(before) != len(files) {
			t.Errorf("%s: pruned %d of %d files, %v", what, len(before)-len(files), len(before), err)
		}
	}
}

func TestKeysRefuse(t *testing.T) {
	keys := newTestKeys(t)
	for name, err := range map[string]error{
		"recipient":             new(Keys).EncryptTo("age1x"),
		"no recipient":          new(Keys).EncryptTo("# nobody\n"),
		"identity as recipient": new(Keys).EncryptTo(keys.identity),
		"recipient as identity": new(Keys).DecryptWith(keys.recipient),
		"no PEM":                new(Keys).SignWith([]byte("x")),
		"public key to sign":    new(Keys).SignWith(keys.public),
		"private key to trust":  new(Keys).Trust(keys.private),
		"nothing to trust":      new(Keys).Trust(nil),
	} {
		if !errors.Is(err, ErrKeys) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), keys.identity) {
			t.Errorf("%s: the error tells the identity", name)
		}
	}
}
