package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// dashboard is one of hack/chart/dashboards.yaml.
type dashboard struct {
	File  string `json:"file"`
	Title string `json:"title"`
	About string `json:"about"`
	Rows  []struct {
		Title  string  `json:"title"`
		Panels []panel `json:"panels"`
	} `json:"rows"`
}

// panel is a curve, or a figure.
type panel struct {
	Title  string    `json:"title"`
	About  string    `json:"about"`
	Kind   string    `json:"kind"` // stat: a figure; empty: curves
	Unit   string    `json:"unit"` // as Grafana calls it
	Expr   string    `json:"expr"`
	Legend string    `json:"legend"`
	And    [2]string `json:"and"`  // a second expression and its legend
	Bad    int       `json:"bad"`  // from this value on a figure is red; 0: never
	Good   int       `json:"good"` // from this value on a figure is green, and red below; 0: never
}

// What $s and $o stand for: matchers of what is chosen.
const (
	chosenCluster  = `namespace=~"$namespace",tickmesh_cluster=~"$cluster"`
	chosenOperator = `namespace=~"$namespace",cluster=~"$cluster"`
)

// columns is the width of a dashboard; a panel is a third of it.
const (
	columns     = 24
	panelWidth  = columns / 3
	panelHeight = 8
	statHeight  = 4
)

// dashboardFiles returns Grafana's JSON of the dashboards.
func dashboardFiles(source []byte) ([]file, error) {
	var list []dashboard
	if err := yaml.UnmarshalStrict(source, &list); err != nil {
		return nil, err
	}
	files := make([]file, 0, len(list))
	for i := range list {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(list[i].grafana()); err != nil {
			return nil, fmt.Errorf("%s: %w", list[i].File, err)
		}
		files = append(files, file{folder + "/dashboards/" + list[i].File + ".json", out.Bytes()})
	}
	return files, nil
}

func (d *dashboard) grafana() map[string]any {
	var panels []any
	id, y := 0, 0
	for _, row := range d.Rows {
		id++
		panels = append(panels, map[string]any{
			"id": id, "type": "row", "title": row.Title, "collapsed": false, "panels": []any{}, "gridPos": position(0, y, columns, 1),
		})
		y++
		x, height := 0, 0
		for _, p := range row.Panels {
			if x+panelWidth > columns {
				x, y, height = 0, y+height, 0
			}
			id++
			height = max(height, p.height())
			panels = append(panels, p.grafana(id, position(x, y, panelWidth, p.height())))
			x += panelWidth
		}
		y += height
	}
	cluster := "label_values(tickmesh_placement_elected{namespace=~\"$namespace\"}, tickmesh_cluster)"
	if d.File == "operator" {
		cluster = "label_values(tickmesh_operator_nodes{namespace=~\"$namespace\"}, cluster)"
	}
	metric := strings.TrimPrefix(cluster, "label_values(")
	metric = metric[:strings.IndexByte(metric, '{')]
	return map[string]any{
		"uid": "tickmesh-" + d.File, "title": d.Title, "description": d.About, "tags": []any{"tickmesh"}, "schemaVersion": 39, "version": 1,
		"editable": true, "refresh": "30s", "time": map[string]any{"from": "now-3h", "to": "now"}, "timezone": "", "panels": panels,
		"templating": map[string]any{"list": []any{
			map[string]any{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
			variable("namespace", "Namespace", "label_values("+metric+", namespace)"), variable("cluster", "Cluster", cluster),
		}},
		"links": []any{map[string]any{"type": "dashboards", "tags": []any{"tickmesh"}, "title": "TickMesh", "asDropdown": true, "includeVars": true, "keepTime": true}},
	}
}

func variable(name, label, query string) map[string]any {
	return map[string]any{
		"name": name, "label": label, "type": "query", "datasource": source(), "query": map[string]any{"query": query, "refId": name}, "definition": query,
		"refresh": 2, "sort": 1, "multi": true, "includeAll": true, "current": map[string]any{"text": "All", "value": "$__all"},
	}
}

func source() map[string]any { return map[string]any{"type": "prometheus", "uid": "${datasource}"} }

func position(x, y, w, h int) map[string]any { return map[string]any{"x": x, "y": y, "w": w, "h": h} }

func (p *panel) height() int {
	if p.Kind == "stat" {
		return statHeight
	}
	return panelHeight
}

func (p *panel) grafana(id int, at map[string]any) map[string]any {
	targets := []any{target("A", p.Expr, p.Legend)}
	if p.And[0] != "" {
		targets = append(targets, target("B", p.And[0], p.And[1]))
	}
	defaults := map[string]any{"unit": p.Unit, "min": 0}
	kind := "timeseries"
	options := map[string]any{"legend": map[string]any{"displayMode": "list", "placement": "bottom"}, "tooltip": map[string]any{"mode": "multi", "sort": "desc"}}
	if p.Kind == "stat" {
		kind = "stat"
		defaults["thresholds"] = map[string]any{"mode": "absolute", "steps": p.steps()}
		options = map[string]any{"colorMode": "value", "graphMode": "area", "reduceOptions": map[string]any{"calcs": []any{"lastNotNull"}}}
	}
	return map[string]any{
		"id": id, "type": kind, "title": p.Title, "description": p.About, "datasource": source(), "gridPos": at, "targets": targets,
		"fieldConfig": map[string]any{"defaults": defaults, "overrides": []any{}}, "options": options,
	}
}

// steps are the colours of a figure.
func (p *panel) steps() []any {
	step := func(colour string, from any) any { return map[string]any{"color": colour, "value": from} }
	switch {
	case p.Bad > 0:
		return []any{step("green", nil), step("red", p.Bad)}
	case p.Good > 0:
		return []any{step("red", nil), step("green", p.Good)}
	}
	return []any{step("text", nil)}
}

func target(id, expr, legend string) map[string]any {
	expr = strings.NewReplacer("$s", chosenCluster, "$o", chosenOperator).Replace(expr)
	return map[string]any{"refId": id, "expr": expr, "legendFormat": legend, "datasource": source(), "editorMode": "code", "range": true}
}
