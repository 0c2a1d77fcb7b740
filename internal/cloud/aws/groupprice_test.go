// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// unlisted is AWS with a price list that lacks a type.
type unlisted struct {
	*account
	name string
}

func (u unlisted) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := u.account.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.Header.Get("X-Amz-Target"), "GetProducts") {
		return res, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	body = bytes.ReplaceAll(body, []byte(u.name), []byte("other"))
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	res.Header.Del("Content-Length")
	return res, nil
}

// TestGroupPrices: a group whose instance type AWS has no price of is offered, dearer than those with a price. A price file
// makes it the cheapest, and a machine comes from it.
func TestGroupPrices(t *testing.T) {
	a := open(t, some(t, "c5.large", "m5.large"), &skipping{}, func(s *awstest.Settings) { s.GroupDelay = 10 * time.Millisecond })
	for _, name := range []string{"c5.large", "m5.large"} {
		a.define(awstest.Group{Name: name, Max: 3, InstanceTypes: []string{name}, Zones: []string{"us-east-1a"}, Tags: enabled})
	}
	var list *catalog.PriceList
	p := cloud.NewPriced(a.providerOf(a.through(unlisted{a, "c5.large"})), func() cloud.PriceTable {
		if list == nil {
			return nil
		}
		return list
	}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	offered := func() (c5, m5 model.Offering) {
		t.Helper()
		types, err := p.Offerings(t.Context(), nil, groupClass(tagged))
		if err != nil {
			t.Fatal(err)
		}
		if len(types) != 2 || types[0].Name != "c5.large" {
			t.Fatalf("have %d types, want c5.large and m5.large", len(types))
		}
		return types[0].Offerings[0], types[1].Offerings[0]
	}
	if c5, m5 := offered(); c5.PriceMicro <= m5.PriceMicro || !c5.Modelled || m5.Modelled {
		t.Errorf("c5.large without a price is %+v, m5.large %+v", c5, m5)
	}
	var err error
	if list, err = catalog.ParsePrices("prices", []byte("type,usdPerHour\nc5.large,0.01\n")); err != nil {
		t.Fatal(err)
	}
	if c5, _ := offered(); c5.PriceMicro != 10_000 || c5.Modelled {
		t.Errorf("c5.large with a price of 0.01 is %+v", c5)
	}
	var res cloud.LaunchResult
	a.soon("a machine has come", func() error {
		res = p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: "a", ClaimUID: "a", Class: groupClass(tagged)}})[0]
		if res.Err == nil && res.ProviderID == "" {
			return io.EOF
		}
		return res.Err
	})
	if res.InstanceType != "c5.large" || res.PriceMicro != 10_000 || res.Modelled {
		t.Errorf("bought %s for %d, want c5.large for 10000", res.InstanceType, res.PriceMicro)
	}
}
