#include "llama.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// What llama.cpp computes of a GGUF file without a tokenizer: logits MODEL IDS ROWS COLS OUT, where IDS
// holds rows of token ids in int32 and OUT gets their logits in float32. llama.py builds and runs it.
static void quiet(enum ggml_log_level l, const char *t, void *u) { if (l >= GGML_LOG_LEVEL_ERROR) fputs(t, stderr); }
int main(int c, char **v) {
  llama_log_set(quiet, 0);
  int rows = atoi(v[3]), cols = atoi(v[4]);
  int32_t *ids = malloc(4L*rows*cols); FILE *f = fopen(v[2], "rb"); if (fread(ids, 4, rows*cols, f) != (size_t)(rows*cols)) return 3; fclose(f);
  struct llama_model_params mp = llama_model_default_params(); mp.n_gpu_layers = 0;
  struct llama_model *m = llama_model_load_from_file(v[1], mp); if (!m) return 1;
  struct llama_context_params cp = llama_context_default_params(); cp.n_ctx = 256; cp.n_batch = 256; cp.n_ubatch = 256; cp.n_threads = 2; cp.n_threads_batch = 2;
  cp.type_k = GGML_TYPE_F32; cp.type_v = GGML_TYPE_F32; cp.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED; cp.swa_full = true;
  struct llama_context *x = llama_init_from_model(m, cp); if (!x) return 2;
  int V = llama_vocab_n_tokens(llama_model_get_vocab(m));
  f = fopen(v[5], "wb");
  for (int r = 0; r < rows; r++) {
    llama_memory_clear(llama_get_memory(x), 1);
    struct llama_batch b = llama_batch_init(cols, 0, 1); b.n_tokens = cols;
    for (int i = 0; i < cols; i++) { b.token[i] = ids[r*cols+i]; b.pos[i] = i; b.n_seq_id[i] = 1; b.seq_id[i][0] = 0; b.logits[i] = 1; }
    int e = llama_decode(x, b); if (e) { fprintf(stderr, "decode %d\n", e); return 4; }
    for (int i = 0; i < cols; i++) fwrite(llama_get_logits_ith(x, i), 4, V, f);
    llama_batch_free(b);
  }
  fclose(f); printf("vocab %d\n", V); return 0;
}
