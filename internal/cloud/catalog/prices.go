// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalog

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// PriceList is the content of a price file: prices by instance type, zone and capacity type.
type PriceList struct {
	Name  string
	micro map[priceKey]int64
}

type priceKey struct{ instanceType, zone, capacityType string } // zone "": every zone that has no price of its own

// Columns of a price file: header names of a CSV file, and field names of a JSON object.
const (
	columnType         = "type"
	columnZone         = "zone"
	columnCapacityType = "capacityType"
	columnPrice        = "usdPerHour"
)

var priceColumns = []string{columnType, columnZone, columnCapacityType, columnPrice}

// Len returns the number of prices.
func (l *PriceList) Len() int { return len(l.micro) }

// PriceMicro returns the price of an offering in micro-dollars per hour: the price for its zone, otherwise the price for
// all zones. It returns false if the list has neither, or is nil.
func (l *PriceList) PriceMicro(instanceType, zone, capacityType string) (int64, bool) {
	if l == nil {
		return 0, false
	}
	v, ok := l.micro[priceKey{instanceType, zone, capacityType}]
	if !ok {
		v, ok = l.micro[priceKey{instanceType, "", capacityType}]
	}
	return v, ok
}

// Reprice sets the prices of a list in a catalog.
func (c *Catalog) Reprice(l *PriceList) {
	for i := range c.Types {
		for j := range c.Types[i].Offerings {
			o := &c.Types[i].Offerings[j]
			if v, ok := l.PriceMicro(c.Types[i].Name, o.Zone, o.CapacityType); ok {
				o.PriceMicro, o.Modelled = v, false
			}
		}
	}
}

// TypesNotIn returns the instance types of the list that are missing in a catalog, sorted.
func (l *PriceList) TypesNotIn(c *Catalog) []string {
	var out []string
	for k := range l.micro {
		if c.Find(k.instanceType) == nil {
			out = append(out, k.instanceType)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// LoadPrices reads a price file in the format of ParsePrices.
func LoadPrices(path string) (*PriceList, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read price file: %w", err)
	}
	return ParsePrices(path, data)
}

// ParsePrices reads a price file in CSV or JSON. name is the name of the file in errors.
//
// CSV has a header line, in any order of columns. Lines that begin with # are comments:
//
//	type,zone,capacityType,usdPerHour
//	m5.large,,,0.0816
//	m5.large,us-east-1a,spot,0.0312
//
// JSON is a list of objects with the same fields:
//
//	[{"type": "m5.large", "usdPerHour": 0.0816}]
//
// An empty or missing zone stands for every zone that has no price of its own. An empty or missing capacity type means
// on-demand.
func ParsePrices(name string, data []byte) (*PriceList, error) {
	p := &priceParser{name: name, list: &PriceList{Name: name, micro: map[priceKey]int64{}}, lines: map[priceKey]int{}}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	read := p.csv
	if text := bytes.TrimSpace(data); len(text) > 0 && (text[0] == '[' || text[0] == '{') {
		read = p.json
	}
	if err := read(data); err != nil {
		return nil, err
	}
	if p.list.Len() == 0 {
		return nil, fmt.Errorf("price file %s: no prices; add a line, for example m5.large,us-east-1a,on-demand,0.096", name)
	}
	return p.list, nil
}

type priceParser struct {
	name  string
	list  *PriceList
	lines map[priceKey]int
}

func (p *priceParser) errorf(line int, format string, args ...any) error {
	return fmt.Errorf("price file %s line %d: %w", p.name, line, fmt.Errorf(format, args...))
}

// add adds one price, given as the text of each column.
func (p *priceParser) add(line int, row map[string]string) error {
	for column, text := range row {
		row[column] = strings.TrimSpace(text)
	}
	k := priceKey{row[columnType], row[columnZone], row[columnCapacityType]}
	if k.instanceType == "" {
		return p.errorf(line, "%s: missing; give the value of the node label %s", columnType, model.LabelInstanceType)
	}
	for _, column := range []string{columnType, columnZone} {
		if err := checkLabelValue(column, row[column]); err != nil {
			return p.errorf(line, "%w; give the value of a node label", err)
		}
	}
	switch k.capacityType {
	case "":
		k.capacityType = model.OnDemand
	case model.OnDemand, model.Spot:
	default:
		return p.errorf(line, "%s: %q: use %s or %s", columnCapacityType, k.capacityType, model.OnDemand, model.Spot)
	}
	micro, err := ParsePrice(row[columnPrice])
	switch {
	case row[columnPrice] == "":
		return p.errorf(line, "%s: missing; give dollars per hour, for example 0.096", columnPrice)
	case err != nil:
		return p.errorf(line, "%s: %q: %w; give dollars per hour, for example 0.096", columnPrice, row[columnPrice], err)
	}
	if before, twice := p.lines[k]; twice {
		return p.errorf(line, "%s: %q: the same type, zone and capacity type are on line %d; remove one of the lines", columnType, k.instanceType, before)
	}
	p.lines[k], p.list.micro[k] = line, micro
	return nil
}

func (p *priceParser) csv(data []byte) error {
	r := csv.NewReader(bytes.NewReader(data))
	r.Comment, r.TrimLeadingSpace, r.FieldsPerRecord = '#', true, -1
	var header []string
	for {
		row, err := r.Read()
		var syntax *csv.ParseError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &syntax):
			return p.errorf(syntax.Line, "column %d: %w; put a value with quotes or commas in double quotes", syntax.Column, syntax.Err)
		case err != nil:
			return fmt.Errorf("price file %s: %w", p.name, err)
		}
		line, _ := r.FieldPos(0)
		if header == nil {
			if header, err = p.header(line, row); err != nil {
				return err
			}
			continue
		}
		if len(row) != len(header) {
			return p.errorf(line, "%d values for %d columns (%s); separate values by commas, and write decimals with a point", len(row), len(header), strings.Join(header, ","))
		}
		values := map[string]string{}
		for i, column := range header {
			values[column] = row[i]
		}
		if err := p.add(line, values); err != nil {
			return err
		}
	}
}

// header returns the columns of a CSV file.
func (p *priceParser) header(line int, row []string) ([]string, error) {
	var columns []string
	for _, text := range row {
		column := strings.TrimSpace(text)
		switch {
		case !slices.Contains(priceColumns, column):
			return nil, p.errorf(line, "header: unknown column %q; use %s, separated by commas", column, strings.Join(priceColumns, ", "))
		case slices.Contains(columns, column):
			return nil, p.errorf(line, "header: duplicate column %q; remove one", column)
		}
		columns = append(columns, column)
	}
	for _, needed := range []string{columnType, columnPrice} {
		if !slices.Contains(columns, needed) {
			return nil, p.errorf(line, "header: column %q is missing; add it", needed)
		}
	}
	return columns, nil
}

func (p *priceParser) json(data []byte) error {
	at := &parser{name: p.name, data: data}
	lineAt := func(offset int64) int { // of the next value
		for offset < int64(len(data)) && strings.IndexByte(", \t\r\n", data[offset]) >= 0 {
			offset++
		}
		return at.line(offset)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	failed := func(err error) error {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return p.errorf(at.line(syntax.Offset), "not JSON: %w", syntax)
		}
		return p.errorf(at.line(int64(len(data))), "not JSON: the file ends early")
	}
	open, err := dec.Token()
	if err != nil {
		return failed(err)
	}
	if open != json.Delim('[') {
		return p.errorf(lineAt(0), "need a list of objects, [{%q: …, %q: …}]", columnType, columnPrice)
	}
	for dec.More() {
		line := lineAt(dec.InputOffset())
		row := map[string]string{}
		if open, err := dec.Token(); err != nil {
			return failed(err)
		} else if open != json.Delim('{') {
			return p.errorf(line, "%v: need an object with the fields %s", open, strings.Join(priceColumns, ", "))
		}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return failed(err)
			}
			field, _ := key.(string) // a key is nothing else
			at := lineAt(dec.InputOffset())
			var value text
			if err := dec.Decode(&value); err != nil {
				return failed(err)
			}
			_, twice := row[field]
			switch {
			case !slices.Contains(priceColumns, field):
				return p.errorf(at, "unknown field %q; use %s", field, strings.Join(priceColumns, ", "))
			case twice:
				return p.errorf(at, "duplicate field %q; remove one", field)
			}
			row[field] = string(value)
		}
		if _, err := dec.Token(); err != nil {
			return failed(err)
		}
		if err := p.add(line, row); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return failed(err)
	}
	if end := dec.InputOffset(); len(bytes.TrimSpace(data[end:])) > 0 {
		return p.errorf(lineAt(end), "text after the end of the list; remove it")
	}
	return nil
}
