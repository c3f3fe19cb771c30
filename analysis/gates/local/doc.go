// Package local lets a candidate be talked to in process: tokenizer, chat template,
// forward pass with a cache of keys and values, and answers token by token.
//
// Promises: an answer is the same bits alone, among others at the same time, with
// drafts of the multi-token-prediction layer and without them, and with the prefix
// cache; memory of caches is bounded; a request that does not fit is refused before
// anything is computed; closing or a done context ends all answers.
package local
