package fakeapi

import (
	"net/http"
	"strconv"
	"time"

	"chatclub/fakeapi/ledger"
)

// hint writes the answer's header about the limits, as they stand after the call:
//
//   - X-Business-Use-Case-Usage, of the page:
//     {"PAGE":[{"type":"messenger","call_count":97,"total_cputime":1,"total_time":1,"estimated_time_to_regain_access":0}]}
//   - X-App-Usage, of the app, with Settings.UsageHeaders:
//     {"call_count":40,"total_cputime":1,"total_time":1}
//   - Retry-After, where the call was throttled, with Settings.RetryAfter.
//
// call_count is a percentage: of the quota of 24 h, and with UsageHeaders of the
// limit per second of the call's class where that is more. The fake has no limit
// of CPU time or time, so these two are always 1. The time to regain access is in
// minutes. Of the limits per second it is 0, because they end within the second.
func (c *call) hint(resp *Response, o outcome) {
	class := c.body.class()
	usage, wait := c.page.usage(c.now, c.set, class)
	minutes := int64((wait + time.Minute - 1) / time.Minute)
	minutes = max(minutes, int64(o.regain/time.Minute))
	resp.Usage = append(resp.Usage, `{"`...)
	resp.Usage = append(resp.Usage, c.page.id...)
	resp.Usage = append(resp.Usage, `":[{"type":"messenger",`...)
	resp.Usage = appendPercent(resp.Usage, usage)
	resp.Usage = append(resp.Usage, `,"estimated_time_to_regain_access":`...)
	resp.Usage = strconv.AppendInt(resp.Usage, minutes, 10)
	resp.Usage = append(resp.Usage, `}]}`...)
	c.hintApp(resp)
	if o.answer == nil || o.result != ledger.Refused || c.set.RetryAfter == NoRetryAfter {
		return
	}
	after := max(o.regain, c.wait(o.answer, class), time.Second)
	switch c.set.RetryAfter {
	case NoRetryAfter:
	case Seconds:
		resp.RetryAfter = strconv.AppendInt(resp.RetryAfter, int64((after+time.Second-1)/time.Second), 10)
	case Date:
		at := c.now.Add(after + time.Second - 1).Truncate(time.Second) // no earlier
		resp.RetryAfter = at.UTC().AppendFormat(resp.RetryAfter, http.TimeFormat)
	}
}

// hintApp writes X-App-Usage, which every answer of the API has.
func (c *call) hintApp(resp *Response) {
	if !c.set.UsageHeaders || len(resp.AppUsage) > 0 {
		return
	}
	resp.AppUsage = append(resp.AppUsage, '{')
	resp.AppUsage = appendPercent(resp.AppUsage, c.api.app.usage(c.now))
	resp.AppUsage = append(resp.AppUsage, '}')
}

func appendPercent(b []byte, usage float64) []byte {
	b = append(b, `"call_count":`...)
	b = strconv.AppendInt(b, int64(100*usage), 10)
	return append(b, `,"total_cputime":1,"total_time":1`...)
}

// wait returns how long the limit that gave a throttled answer refuses further
// calls; 0: none did, because the answer was requested or injected.
func (c *call) wait(why *answer, class ledger.Class) time.Duration {
	switch why {
	case errPageLimit:
		return c.page.limitWait(c.now, class)
	case errQuota:
		_, wait := c.page.usage(c.now, c.set, class)
		return wait
	case errAppLimit:
		return c.api.app.wait(c.now)
	}
	return 0 // of one recipient it is the rest of the second
}

// usage returns the share of the page's limits that is taken, and how long its
// quota of 24 h refuses further calls.
func (p *page) usage(now time.Time, set *live, class ledger.Class) (share float64, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fitLocked(now, set)
	if set.UsageHeaders {
		share = p.limits[class].Usage(now)
	}
	if p.quota.Limiter != nil {
		share = max(share, p.quota.Usage(now))
		wait = p.quota.Wait(now)
	}
	return share, wait
}

// limitWait returns how long the limit per second of a class refuses further calls.
func (p *page) limitWait(now time.Time, class ledger.Class) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limits[class].Wait(now)
}

// usage returns the share of the app's limit that is taken; 0: it has none.
func (a *app) usage(now time.Time) float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.limiter.Limiter == nil {
		return 0
	}
	return a.limiter.Usage(now)
}

// wait returns how long the app's limit refuses further calls.
func (a *app) wait(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.limiter.Limiter == nil {
		return 0
	}
	return a.limiter.Wait(now)
}
