// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// defaultThrottleDelay is the pause after a throttled call whose answer does not say how long: EC2's buckets refill within seconds.
const defaultThrottleDelay = time.Second

// Codes of EC2 that we act on.
const (
	codeTokenReused     = "IdempotentParameterMismatch"
	codeDryRun          = "DryRunOperation"
	codeInstanceUnknown = "InvalidInstanceID.NotFound"
	codeInstanceBad     = "InvalidInstanceID.Malformed"
	codeTemplateExists  = "InvalidLaunchTemplateName.AlreadyExistsException"
	codeNoAddresses     = "InsufficientFreeAddressesInSubnet"
	codeUnfulfillable   = "UnfulfillableCapacity"
)

// isOutOfCapacity says whether a code of CreateFleet means that an offering can't be had now.
func isOutOfCapacity(code string) bool {
	switch code {
	case "InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", codeUnfulfillable, "Unsupported",
		codeNoAddresses, "MaxFleetCountExceeded", "ReservationCapacityExceeded", "InsufficientHostCapacity",
		"InsufficientCapacityOnHost", "InstanceLimitExceeded", "SpotMaxPriceTooLow", "InsufficientCapacity",
		// Nobody may use spot in this account yet: as good as none to be had.
		"AuthFailure.ServiceLinkedRoleCreationNotPermitted":
		return true
	}
	return false
}

// isTemplateNotFound says whether a code means that the launch template is not there.
func isTemplateNotFound(code string) bool {
	return strings.HasPrefix(code, "InvalidLaunchTemplateName.NotFound") || strings.HasPrefix(code, "InvalidLaunchTemplateId.NotFound")
}

func isThrottled(code string) bool {
	switch code {
	case "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException",
		"TooManyRequestsException", "EC2ThrottledException", "SlowDown", "PriorRequestNotComplete", "BandwidthLimitExceeded",
		"RequestThrottledExceptionError", "ProvisionedThroughputExceededException", "TransactionInProgressException":
		return true
	}
	return false
}

func isDenied(code string) bool {
	switch code {
	case "UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthFailure", "UnauthorizedAccess", "InvalidClientTokenId",
		"UnrecognizedClientException", "SignatureDoesNotMatch", "OptInRequired", "ExpiredToken", "ExpiredTokenException", "Blocked", "PendingVerification":
		return true
	}
	return false
}

// errorCode is the code that a service answered, empty for any other error.
func errorCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// hadNoEffect says whether an error is an answer by which a call has changed nothing, and never will.
func hadNoEffect(err error) bool {
	var res *smithyhttp.ResponseError
	return errorCode(err) != "" && errors.As(err, &res) && res.HTTPStatusCode() < 500
}

// wasRejected says whether a request certainly had no effect: the service answered that what it asks for won't do. Any answer of 500 and above,
// and one that came too late, may hide an instance.
func wasRejected(err error, code string) bool {
	var res *smithyhttp.ResponseError
	return code != "" && !isThrottled(code) && !isDenied(code) && code != "RequestExpired" && !strings.HasPrefix(code, "RequestTimeout") &&
		errors.As(err, &res) && res.HTTPStatusCode() < 500
}

// classifyError classifies what a call answered.
func classifyError(ctx context.Context, op, object string, err error) error {
	if err == nil {
		return nil
	}
	var known *cloud.Error
	if errors.As(err, &known) {
		named := *known
		named.Op, named.Object = op, object
		return &named
	}
	if ctx.Err() != nil {
		return &cloud.Error{Kind: cloud.Unknown, Op: op, Object: object, Err: ctx.Err()}
	}
	out := &cloud.Error{Kind: cloud.Unknown, Op: op, Object: object, Err: readableError(err)}
	switch code := errorCode(err); {
	case isThrottled(code):
		out.Kind, out.After = cloud.Throttled, retryDelay(err)
	case isDenied(code):
		out.Kind = cloud.Denied
	case code == codeInstanceUnknown, code == codeInstanceBad:
		out.Kind = cloud.NotFound
	}
	return out
}

// retryDelay is the pause that an answer asks for.
func retryDelay(err error) time.Duration {
	var res *smithyhttp.ResponseError
	if errors.As(err, &res) && res.HTTPResponse() != nil {
		h := res.HTTPResponse().Header
		if ms, err := strconv.ParseInt(h.Get("X-Amz-Retry-After"), 10, 64); err == nil && ms > 0 {
			return time.Duration(ms) * time.Millisecond
		}
		if s, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64); err == nil && s > 0 {
			return time.Duration(s) * time.Second
		}
	}
	return defaultThrottleDelay
}

func notReadyError(op, object, format string, args ...any) error {
	return &cloud.Error{Kind: cloud.NotReady, Op: op, Object: object, Err: fmt.Errorf(format, args...)}
}

// explainDenied says what has to be mended where a call is not allowed.
func explainDenied(what string, err error) error {
	if isDenied(errorCode(err)) {
		return &cloud.Error{Kind: cloud.Denied, Err: fmt.Errorf("%s: %w; allow the call in the controller's IAM policy", what, readableError(err))}
	}
	return err
}

// readableError is an error as a person wants to read it: the call, the code, what the service says.
func readableError(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err
	}
	name := api.ErrorCode()
	var op *smithy.OperationError
	if errors.As(err, &op) {
		name = op.Service() + " " + op.Operation() + ": " + name
	}
	return &summarizedError{fmt.Sprintf("%s: %s", name, api.ErrorMessage()), err}
}

type summarizedError struct {
	text  string
	cause error
}

func (e *summarizedError) Error() string { return e.text }

func (e *summarizedError) Unwrap() error { return e.cause }

// unresolvedError is what a person has to mend.
type unresolvedError struct{ reason, text string }

func (e *unresolvedError) Error() string { return e.text }

func newUnresolvedError(reason, format string, args ...any) error {
	return &unresolvedError{reason, fmt.Sprintf(format, args...)}
}
