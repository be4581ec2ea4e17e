package influxql

import (
	"strings"
	"testing"
)

// fact is a query and what InfluxDB 1.8's own tests say that its result is: what stands
// between {"statement_id":0 and }.
type fact struct{ query, result string }

// one returns the member of one series of a result.
func one(text string) string { return `,"series":[` + text + `]` }

const cutoffs = `
cpu value=1 2000-01-01T00:00:00Z
cpu value=2 2000-01-01T00:00:01Z
cpu value=3 2000-01-01T00:00:05Z
cpu value=4 2000-01-01T00:00:08Z
cpu value=5 2000-01-01T00:00:09Z
cpu value=6 2000-01-01T00:00:10Z`

const fills = `
fills val=3 2009-11-10T23:00:02Z
fills val=5 2009-11-10T23:00:03Z
fills val=4 2009-11-10T23:00:06Z
fills val=10 2009-11-10T23:00:16Z`

const fillsWhere = ` from fills where time >= '2009-11-10T23:00:00Z' and time < '2009-11-10T23:00:20Z' group by time(5s)`

const limited = `
limited,tennant=paul foo=2 2009-11-10T23:00:02Z
limited,tennant=paul foo=3 2009-11-10T23:00:03Z
limited,tennant=paul foo=4 2009-11-10T23:00:04Z
limited,tennant=todd foo=5 2009-11-10T23:00:05Z`

const topCPU = `
cpu,host=server01 value=2.0 2000-01-01T00:00:00Z
cpu,host=server02 value=3.0 2000-01-01T00:00:10Z
cpu,host=server03 value=4.0 2000-01-01T00:00:20Z
cpu,host=server04 value=3.0 2000-01-01T01:00:00Z
cpu,host=server05 value=7.0 2000-01-01T01:00:10Z
cpu,host=server06 value=6.0 2000-01-01T01:00:20Z
cpu,host=server07 value=7.0 2000-01-01T02:00:00Z
cpu,host=server08 value=9.0 2000-01-01T02:00:10Z`

const counter = `
counter value=12 2000-01-01T00:00:00Z
counter value=34 2000-01-01T00:00:10Z
counter value=78 2000-01-01T00:00:20Z
counter value=89 2000-01-01T00:00:30Z
counter value=101 2000-01-01T00:00:40Z`

const sparse = `
m0 f2=4,f3=2 2000-01-01T00:00:00Z
m0 f1=5,f3=8 2000-01-01T00:00:10Z
m0 f1=5,f2=3,f3=6 2000-01-01T00:00:20Z`

var facts = map[string][]fact{
	cutoffs: {
		{`SELECT SUM(value) FROM cpu`, one(`{"name":"cpu","columns":["time","sum"],"values":[["1970-01-01T00:00:00Z",21]]}`)},
		{`SELECT SUM(value) FROM cpu where time >= '2000-01-01T00:00:00Z' and time <= '2000-01-01T00:00:10Z' group by time(5s)`,
			one(`{"name":"cpu","columns":["time","sum"],"values":[["2000-01-01T00:00:00Z",3],["2000-01-01T00:00:05Z",12],["2000-01-01T00:00:10Z",6]]}`)},
		{`SELECT SUM(value) FROM cpu where time >= '2000-01-01T00:00:01Z' and time <= '2000-01-01T00:00:10Z' group by time(5s)`,
			one(`{"name":"cpu","columns":["time","sum"],"values":[["2000-01-01T00:00:00Z",2],["2000-01-01T00:00:05Z",12],["2000-01-01T00:00:10Z",6]]}`)},
		{`SELECT SUM(value) FROM cpu where time >= '2000-01-01T00:00:02Z' and time <= '2000-01-01T00:00:10Z' group by time(5s)`,
			one(`{"name":"cpu","columns":["time","sum"],"values":[["2000-01-01T00:00:00Z",null],["2000-01-01T00:00:05Z",12],["2000-01-01T00:00:10Z",6]]}`)},
		{`SELECT SUM(value) FROM cpu where time >= '2000-01-01T00:00:00Z' and time <= '2000-01-01T00:00:09Z' group by time(5s)`,
			one(`{"name":"cpu","columns":["time","sum"],"values":[["2000-01-01T00:00:00Z",3],["2000-01-01T00:00:05Z",12]]}`)},
		{`SELECT value * value, nosuch FROM cpu LIMIT 1`, one(`{"name":"cpu","columns":["time","value_value","nosuch"],"values":[["2000-01-01T00:00:00Z",1,null]]}`)},
		{`SELECT max(value) + min(value) FROM cpu`, one(`{"name":"cpu","columns":["time","max_min"],"values":[["1970-01-01T00:00:00Z",7]]}`)},
		{`SELECT load FROM missing GROUP BY *`, ``},
	},
	fills: {
		{`select mean(val)` + fillsWhere + ` FILL(1)`, one(`{"name":"fills","columns":["time","mean"],"values":[["2009-11-10T23:00:00Z",4],["2009-11-10T23:00:05Z",4],["2009-11-10T23:00:10Z",1],["2009-11-10T23:00:15Z",10]]}`)},
		{strings.Replace(`select mean(val)`+fillsWhere+` FILL(1)`, " group", " and val > 50 group", 1), ``},
		{`select mean(val)` + fillsWhere + ` FILL(previous)`, one(`{"name":"fills","columns":["time","mean"],"values":[["2009-11-10T23:00:00Z",4],["2009-11-10T23:00:05Z",4],["2009-11-10T23:00:10Z",4],["2009-11-10T23:00:15Z",10]]}`)},
		{`select mean(val)` + fillsWhere + ` FILL(none)`, one(`{"name":"fills","columns":["time","mean"],"values":[["2009-11-10T23:00:00Z",4],["2009-11-10T23:00:05Z",4],["2009-11-10T23:00:15Z",10]]}`)},
		{`select mean(val)` + fillsWhere, one(`{"name":"fills","columns":["time","mean"],"values":[["2009-11-10T23:00:00Z",4],["2009-11-10T23:00:05Z",4],["2009-11-10T23:00:10Z",null],["2009-11-10T23:00:15Z",10]]}`)},
		{`select count(val)` + fillsWhere, one(`{"name":"fills","columns":["time","count"],"values":[["2009-11-10T23:00:00Z",2],["2009-11-10T23:00:05Z",1],["2009-11-10T23:00:10Z",0],["2009-11-10T23:00:15Z",1]]}`)},
		{`select count(val)` + fillsWhere + ` fill(previous)`, one(`{"name":"fills","columns":["time","count"],"values":[["2009-11-10T23:00:00Z",2],["2009-11-10T23:00:05Z",1],["2009-11-10T23:00:10Z",1],["2009-11-10T23:00:15Z",1]]}`)},
		{`select mean(val) from fills where time < '2009-11-10T23:00:20Z' group by time(5s)`, one(`{"name":"fills","columns":["time","mean"],"values":[["2009-11-10T23:00:00Z",4],["2009-11-10T23:00:05Z",4],["2009-11-10T23:00:10Z",null],["2009-11-10T23:00:15Z",10]]}`)},
	},
	limited: {
		{`select foo from "limited" LIMIT 2`, one(`{"name":"limited","columns":["time","foo"],"values":[["2009-11-10T23:00:02Z",2],["2009-11-10T23:00:03Z",3]]}`)},
		{`select foo from "limited" LIMIT 3 OFFSET 3`, one(`{"name":"limited","columns":["time","foo"],"values":[["2009-11-10T23:00:05Z",5]]}`)},
		{`select foo from "limited" LIMIT 2 OFFSET 20`, ``},
		{`select mean(foo) from "limited" WHERE time >= '2009-11-10T23:00:02Z' AND time < '2009-11-10T23:00:06Z' GROUP BY TIME(1s) LIMIT 2 OFFSET 1`,
			one(`{"name":"limited","columns":["time","mean"],"values":[["2009-11-10T23:00:03Z",3],["2009-11-10T23:00:04Z",4]]}`)},
		{`select foo from "limited" group by tennant limit 1`, one(`{"name":"limited","tags":{"tennant":"paul"},"columns":["time","foo"],"values":[["2009-11-10T23:00:02Z",2]]},{"name":"limited","tags":{"tennant":"todd"},"columns":["time","foo"],"values":[["2009-11-10T23:00:05Z",5]]}`)},
		{`select foo from "limited" group by tennant limit 1 offset 1`, one(`{"name":"limited","tags":{"tennant":"paul"},"columns":["time","foo"],"values":[["2009-11-10T23:00:03Z",3]]}`)},
	},
	topCPU: {
		{`SELECT TOP(value, 1) FROM cpu`, one(`{"name":"cpu","columns":["time","top"],"values":[["2000-01-01T02:00:10Z",9]]}`)},
		{`SELECT TOP(value, 3) FROM cpu`, one(`{"name":"cpu","columns":["time","top"],"values":[["2000-01-01T01:00:10Z",7],["2000-01-01T02:00:00Z",7],["2000-01-01T02:00:10Z",9]]}`)},
		{`SELECT BOTTOM(value, 3) FROM cpu`, one(`{"name":"cpu","columns":["time","bottom"],"values":[["2000-01-01T00:00:00Z",2],["2000-01-01T00:00:10Z",3],["2000-01-01T01:00:00Z",3]]}`)},
		{`SELECT TOP(value, host, 2) FROM cpu`, one(`{"name":"cpu","columns":["time","top","host"],"values":[["2000-01-01T01:00:10Z",7,"server05"],["2000-01-01T02:00:10Z",9,"server08"]]}`)},
		{`SELECT TOP(value, 3) FROM cpu limit 2`, `,"error":"limit (3) in top function can not be larger than the LIMIT (2) in the select statement"`},
		{`SELECT TOP(value, 2) FROM cpu where time >= '2000-01-01T00:00:00Z' and time <= '2000-01-01T02:00:10Z' group by time(1h)`,
			one(`{"name":"cpu","columns":["time","top"],"values":[["2000-01-01T00:00:10Z",3],["2000-01-01T00:00:20Z",4],["2000-01-01T01:00:10Z",7],["2000-01-01T01:00:20Z",6],["2000-01-01T02:00:00Z",7],["2000-01-01T02:00:10Z",9]]}`)},
	},
	counter: {
		{`SELECT percentile(derivative, 95) FROM (SELECT derivative(value, 1s) FROM counter) WHERE time >= '2000-01-01T00:00:00Z' AND time < '2000-01-01T00:00:50Z'`,
			one(`{"name":"counter","columns":["time","percentile"],"values":[["2000-01-01T00:00:20Z",4.4]]}`)},
	},
	sparse: {
		{`SELECT sum FROM (SELECT f1 + f2 + f3 AS sum FROM m0)`, one(`{"name":"m0","columns":["time","sum"],"values":[["2000-01-01T00:00:00Z",null],["2000-01-01T00:00:10Z",null],["2000-01-01T00:00:20Z",14]]}`)},
	},
}

// TestFacts compares with what InfluxDB's tests expect.
func TestFacts(t *testing.T) {
	for lines, all := range facts {
		h := New(Options{Source: stored(t, lines), Clock: testClock})
		for _, f := range all {
			status, got := get(t, h, f.query)
			if want := `{"results":[{"statement_id":0` + f.result + `}]}`; status != 200 || got != want {
				t.Errorf("%s\n%d %s\nwant %s", f.query, status, got, want)
			}
		}
	}
}
