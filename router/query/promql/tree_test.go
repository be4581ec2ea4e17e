package promql

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// TestTree: the forms of every kind of expression are those of Prometheus.
func TestTree(t *testing.T) {
	o := labOptions(t)
	o.Experimental = true
	h := New(o)
	for text, want := range map[string]string{
		`-(1)`: `{"expr":{"expr":{"type":"numberLiteral","val":"1"},"type":"parenExpr"},"op":"-","type":"unaryExpr"}`,
		`"a"`:  `{"type":"stringLiteral","val":"a"}`,
		`topk by (x) (2, up)`: `{"expr":{"anchored":false,"matchers":[{"name":"__name__","type":"=","value":"up"}],"name":"up","offset":0,"offsetExpr":null,` +
			`"smoothed":false,"startOrEnd":null,"timestamp":null,"type":"vectorSelector"},"grouping":["x"],"op":"topk","param":{"type":"numberLiteral","val":"2"},"type":"aggregation","without":false}`,
		`rate({a="b"}[5m] offset -1m @ 7)`: `{"args":[{"anchored":false,"matchers":[{"name":"a","type":"=","value":"b"}],"name":"","offset":-60000,"offsetExpr":null,"range":300000,` +
			`"rangeExpr":null,"smoothed":false,"startOrEnd":null,"timestamp":7000,"type":"matrixSelector"}],"func":{"argTypes":["matrix"],"name":"rate","returnType":"vector","variadic":0},"type":"call"}`,
		`max_over_time(vector(1)[1h:5m] @ end())`: `{"args":[{"expr":{"args":[{"type":"numberLiteral","val":"1"}],"func":{"argTypes":["scalar"],"name":"vector","returnType":"vector","variadic":0},` +
			`"type":"call"},"offset":0,"offsetExpr":null,"range":3600000,"rangeExpr":null,"startOrEnd":"end","step":300000,"stepExpr":null,"timestamp":null,"type":"subquery"}],` +
			`"func":{"argTypes":["matrix"],"name":"max_over_time","returnType":"vector","variadic":0},"type":"call"}`,
		`vector(1) > bool on (x) group_left (y) vector(2)`: `"matching":{"card":"many-to-one","fillValues":{"lhs":null,"rhs":null},"include":["y"],"labels":["x"],"on":true}`,
		`up[5m+1m]`: `"rangeExpr":{"lhs":{"duration":true,"type":"numberLiteral","val":"300"},"op":"+","rhs":{"duration":true,"type":"numberLiteral","val":"60"},"type":"durationExpr","wrapped":false}`,
	} {
		got := get(h, "parse_query?query="+url.QueryEscape(text))
		if got.status != 200 || !strings.Contains(got.body, want) || !json.Valid([]byte(got.body)) {
			t.Errorf("%s\n got %s\nwant %s", text, got.body, want)
		}
	}
}
