// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// TestStateChanges: the queue tells of every state of every instance once, whoever started or ended it, also across a restart; and
// nobody's messages are kept for five minutes.
func TestStateChanges(t *testing.T) {
	a := newAccount(t)
	ctx := t.Context()
	lt := a.template("nodes", nodeadmData)
	out := check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(ctx, a.fleetOf(lt, "t", "c1", 1, types.DefaultTargetCapacityTypeOnDemand, "m5.large")))
	one := ids(out)[0]
	if got := a.told(2); !slices.Equal(got, []string{"pending " + one, "running " + one}) {
		t.Fatalf("of the launch the queue told %v", got)
	}
	a.restart()
	if err := a.control("PUT", "groups", Group{Name: "g", Min: 0, Max: 1, Desired: 1, LaunchTemplate: lt, InstanceTypes: []string{"m5.large"}}, nil); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, "the group launches its member", func() error {
		a.clock.forward(time.Second) // the group is looked at each second, from an instant that this test does not see
		if alive := len(a.books().Alive); alive != 2 {
			return fmt.Errorf("%d instances are alive", alive)
		}
		return nil
	})
	if member := a.told(2); !strings.HasPrefix(member[0], "pending i-") || member[1] != "running "+strings.TrimPrefix(member[0], "pending ") {
		t.Errorf("of a member of a group the queue told %v", member)
	}
	if _, err := a.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{one}}); err != nil {
		t.Fatal(err)
	}
	if got := a.told(2); !slices.Equal(got, []string{"shutting-down " + one, "terminated " + one}) {
		t.Errorf("of the end the queue told %v", got)
	}
	if _, err := a.sqs.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: a.queue(), MessageBody: aws.String("nobody's")}); err != nil {
		t.Fatal(err)
	}
	a.clock.forward(4 * time.Minute)
	if b := a.books(); b.Messages != 1 {
		t.Errorf("after four minutes %d messages are kept", b.Messages)
	}
	a.clock.forward(time.Minute)
	testwait.Until(t, "the message expires", func() error {
		if b := a.books(); b.Messages != 0 {
			return fmt.Errorf("%d messages are kept", b.Messages)
		}
		return nil
	})
}
