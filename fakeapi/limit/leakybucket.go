package limit

// leakyBucket is a bucket of `burst` calls that leaks limit/W of them evenly. A
// call that would make it overflow is refused:
//
//	level = max(0, level − t × limit/W), admitted while level + 1 ≤ burst
//
// (the bucket as a meter, ITU-T I.371; the same rule as GCRA). It is the token
// bucket seen from the other side, level = burst − tokens, with another
// purpose. The default burst is a tenth of the limit. So the admitted calls are
// even within a tenth of W, and a pause saves up nothing beyond that.
//
// With refused calls counting, overflowing calls are kept, up to one more bucket.
type leakyBucket struct{ tokenBucket }

func newLeakyBucket(c Config) *leakyBucket {
	return &leakyBucket{*newBucket(c, func(limit int64) int64 { return max(1, limit/10) })}
}
