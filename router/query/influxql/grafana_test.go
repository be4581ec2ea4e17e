package influxql

import (
	"net/url"
	"testing"
)

const grafanaLines = `
cpu,host=a,dc=x usage=1,idle=9 2000-01-01T00:00:00Z
cpu,host=b,dc=y usage=3,idle=7 2000-01-01T00:00:00Z
cpu,host=a,dc=x usage=5,idle=5 2000-01-01T00:01:00Z
mem.free,host=a value=2 2000-01-01T00:00:00Z
Disk,host=c used=1 2000-01-01T00:00:00Z`

// TestGrafana asks what Grafana's data source asks: its health check, the lists of its
// query editor (query_builder.ts), template variables, and queries of panels.
func TestGrafana(t *testing.T) {
	h := New(Options{Source: stored(t, grafanaLines), Clock: testClock})
	for _, f := range []fact{
		{`SHOW measurements`, one(`{"name":"measurements","columns":["name"],"values":[["Disk"],["cpu"],["mem.free"]]}`)},
		{`SHOW RETENTION POLICIES on "db0"`, one(`{"columns":["name","duration","shardGroupDuration","replicaN","default"],"values":[["autogen","0s","168h0m0s",1,true]]}`)},
		{`SHOW MEASUREMENTS LIMIT 100`, one(`{"name":"measurements","columns":["name"],"values":[["Disk"],["cpu"],["mem.free"]]}`)},
		{`SHOW MEASUREMENTS WITH MEASUREMENT =~ /(?i)disk/ LIMIT 100`, one(`{"name":"measurements","columns":["name"],"values":[["Disk"]]}`)},
		{`SHOW MEASUREMENTS WITH MEASUREMENT =~ /(?i)mem\.fr/ WHERE "host" = 'a' LIMIT 100`, one(`{"name":"measurements","columns":["name"],"values":[["mem.free"]]}`)},
		{`SHOW TAG KEYS FROM "cpu"`, one(`{"name":"cpu","columns":["tagKey"],"values":[["dc"],["host"]]}`)},
		{`SHOW TAG KEYS FROM "autogen"."cpu" WHERE "host" = 'a'`, one(`{"name":"cpu","columns":["tagKey"],"values":[["dc"],["host"]]}`)},
		{`SHOW TAG VALUES FROM "cpu" WITH KEY = "host"`, one(`{"name":"cpu","columns":["key","value"],"values":[["host","a"],["host","b"]]}`)},
		{`SHOW TAG VALUES FROM "cpu" WITH KEY = "host" WHERE "dc" =~ /^(y)$/`, one(`{"name":"cpu","columns":["key","value"],"values":[["host","b"]]}`)},
		{`SHOW TAG VALUES WITH KEY = "dc"`, one(`{"name":"cpu","columns":["key","value"],"values":[["dc","x"],["dc","y"]]}`)},
		{`SHOW FIELD KEYS FROM "cpu"`, one(`{"name":"cpu","columns":["fieldKey","fieldType"],"values":[["idle","float"],["usage","float"]]}`)},
		{`SHOW FIELD KEYS FROM /^mem/`, one(`{"name":"mem.free","columns":["fieldKey","fieldType"],"values":[["value","float"]]}`)},
		{`SELECT mean("usage") FROM "cpu" WHERE ("host"::tag =~ /^(a|b)$/) AND time >= 946684800000ms and time <= 946684920000ms GROUP BY time(1m), "host"::tag fill(null)`,
			one(`{"name":"cpu","tags":{"host":"a"},"columns":["time","mean"],"values":[[946684800000,1],[946684860000,5],[946684920000,null]]},` +
				`{"name":"cpu","tags":{"host":"b"},"columns":["time","mean"],"values":[[946684800000,3],[946684860000,null],[946684920000,null]]}`)},
		{`SELECT last("usage") AS "now" FROM "autogen"."cpu" WHERE time >= 946684800000ms and time <= 946684920000ms GROUP BY "host"`,
			one(`{"name":"cpu","tags":{"host":"a"},"columns":["time","now"],"values":[[946684860000,5]]},{"name":"cpu","tags":{"host":"b"},"columns":["time","now"],"values":[[946684800000,3]]}`)},
		{`SELECT "usage", "host" FROM "cpu" WHERE time >= 946684800000ms ORDER BY time DESC LIMIT 1`,
			one(`{"name":"cpu","columns":["time","usage","host"],"values":[[946684860000,5,"a"]]}`)},
	} {
		status, got := get(t, h, f.query, "epoch", "ms")
		if want := `{"results":[{"statement_id":0` + f.result + `}]}`; status != 200 || got != want {
			t.Errorf("%s\n%d %s\nwant %s", f.query, status, got, want)
		}
		// By POST the query is in the body and the rest in the URL.
		r := post(h, "/query?db=db0&epoch=ms&rp=autogen", "application/x-www-form-urlencoded", url.Values{"q": {f.query}}.Encode())
		if posted := bodyOf(t, r); posted != got+"\n" {
			t.Errorf("POST %s\n%s", f.query, posted)
		}
	}
}
