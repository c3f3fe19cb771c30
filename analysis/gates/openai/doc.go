// Package openai talks to any server of the OpenAI kind: chat and text completions,
// whole or streamed, with tools and log probabilities, and the counters that vLLM,
// llama.cpp and quantscope tell.
//
// Promises: nothing hangs: every wait has a bound, and a context that ends, ends it;
// answers are bounded in length; a key comes from the environment, goes into no
// message, record or error, and is not sent on to another host; what a server sends
// that is no answer is an error that names the address and what came.
package openai
