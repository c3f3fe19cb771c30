// Package through measures perplexity and KL divergence through servers, from the
// log probabilities that they tell.
//
// Promises: what is known of a divergence from the likeliest tokens alone is a lower
// bound, and is called one, with the share of probability that was seen; it is never
// put beside a figure over the whole vocabulary without that word; positions whose
// log probabilities cannot be right are found before any figure is believed.
package through
