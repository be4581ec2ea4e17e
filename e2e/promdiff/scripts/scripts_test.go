package scripts

import (
	"testing"
	"time"

	prom "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/teststorage"
)

// lookback is the engine's default.
const lookback = 5 * time.Minute

func TestScriptsPlanned(t *testing.T) {
	e := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	run(t, engine{e, parser.NewParser(promqltest.TestParserOpts), lookback})
}

func TestScriptsPlain(t *testing.T) {
	run(t, promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery))
}

func run(t *testing.T, e prom.QueryEngine) {
	var c counts
	promqltest.RunBuiltinTestsWithStorage(t, e, func(t testing.TB) storage.Storage {
		return &store{backend: newBackend(t), counts: &c, beside: teststorage.New(t, func(o *tsdb.Options) {
			o.EnableSTStorage, o.XOR2EncodingAllowed, o.FloatChunkEncoding, o.EnableHistogramSTEncoding = true, true, chunkenc.EncXOR2, true
		})}
	})
	t.Logf("%d samples in our storage; %d native histograms and samples with a start time, which it does not keep, beside it; %d queries planned", c.ours, c.beside, c.lines)
	if c.ours < 1000 {
		t.Errorf("the scripts have loaded %d samples only", c.ours)
	}
}
