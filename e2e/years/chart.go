package years

import (
	"fmt"
	"math"
	"strings"
)

// Size of a chart, and what its text takes of it.
const (
	chartWidth, chartHeight           = 640, 240
	chartLeft, chartTop, chartBottom  = 90, 36, 30
	chartRight                        = 16
	chartPlotWidth                    = chartWidth - chartLeft - chartRight
	chartPlotHeight                   = chartHeight - chartTop - chartBottom
	chartLines                        = 4
	chartInk, chartFaint, chartStroke = "#333", "#ddd", "#0b6e99"
)

// SVG draws the figure over its days, from 0.
func (f *Figure) SVG() string {
	most := 0.0
	for _, v := range f.Values {
		most = max(most, v)
	}
	most = roundUp(most)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="11" fill="%s">`+"\n",
		chartWidth, chartHeight, chartWidth, chartHeight, chartInk)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", chartWidth, chartHeight)
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="13">%s</text>`+"\n", chartLeft, f.title())
	for i := range chartLines + 1 {
		y := chartTop + chartPlotHeight*i/chartLines
		fmt.Fprintf(&b, `<path d="M%d %dH%d" stroke="%s"/>`, chartLeft, y, chartWidth-chartRight, chartFaint)
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", chartLeft-6, y+4, number(most*float64(chartLines-i)/chartLines))
	}
	every := max(1, len(f.Values)/(6*weekDays)) * weekDays
	for day := 0; day < len(f.Values); day += every {
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">day %d</text>`+"\n", f.x(day), chartHeight-10, day)
	}
	b.WriteString(`<polyline fill="none" stroke-width="1.5" stroke="` + chartStroke + `" points="`)
	for day, v := range f.Values {
		fmt.Fprintf(&b, "%d,%.1f ", f.x(day), chartTop+chartPlotHeight*(1-v/most))
	}
	b.WriteString(`"/>` + "\n</svg>\n")
	return b.String()
}

func (f *Figure) x(day int) int { return chartLeft + chartPlotWidth*day/max(1, len(f.Values)-1) }

// roundUp returns the next number of one digit.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	return math.Ceil(v/unit) * unit
}

// file is the name of the figure's picture.
func (f *Figure) file() string {
	name := strings.NewReplacer(",", "", " ", "-").Replace(f.Name)
	if f.Unit != "" && f.Unit != "bytes" {
		name += "-" + strings.ReplaceAll(f.Unit, " ", "-")
	}
	return name + ".svg"
}
