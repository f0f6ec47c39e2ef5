"""A board's llama-server that is a script: it speaks HTTP as far as those who ask it need, at speeds that are known."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from deploy.run.request import RunRequest
from tests.support.run_requests import make_request

STEP_SECONDS, READ = 0.02, 8
"""Of each token after the first, by its own clock; tokens of the prompt that it says to have read."""

SERVER = r"""#!/bin/sh
echo "words: $*" >&2
{before}
p=$((20000 + $$ % 20000))
cat >handler <<'END'
IFS= read -r line
n=0
while IFS= read -r h; do
  h=${{h%?}}
  [ -n "$h" ] || break
  case $h in [Cc]ontent-[Ll]ength:*) n=${{h#*: }};; esac
done
[ $n = 0 ] || body=$(head -c $n)
case $line in
  *" /health "*) printf 'HTTP/1.1 200 OK\r\nContent-Length: 15\r\nConnection: close\r\n\r\n{{"status":"ok"}}';;
  *" /tokenize "*) printf 'HTTP/1.1 200 OK\r\nContent-Length: 36\r\nConnection: close\r\n\r\n{{"tokens":[1,2,3,4,5,6,7,8,9,10,11]}}';;
  *" /props "*) printf 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{{"chat_template":"x","total_slots":1,"build_info":"a script"}}';;
  *" /apply-template "*)
    c=${{body#*\"content\":\"}}
    printf 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{{"prompt":"%s"}}' "${{c%\"\}}\]\}}*}}";;
  *" /completion "*)
    printf 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n'
    t=${{body#*\"n_predict\":}}; t=${{t%%,*}}; t=$((t)); i=0
    while [ $i -lt $t ]; do
      i=$((i+1))
      {during}
      ms=$(( (i-1) * 20 )).5
      printf 'data: {{"content":" w%d","tokens":[%d],"stop":false,"tokens_predicted":%d,"tokens_evaluated":8,' $i $i $i
      printf '"timings":{{"cache_n":0,"prompt_n":8,"prompt_ms":80.0,"predicted_n":%d,"predicted_ms":%s}}}}\n\n' $i $ms
    done
    printf 'data: {{"content":"","tokens":[],"stop":true,"stop_type":"limit","truncated":false,"tokens_predicted":%d,' $t
    printf '"tokens_evaluated":8,"timings":{{"cache_n":0,"prompt_n":8,"prompt_ms":80.0,"predicted_n":%d,' $t
    printf '"predicted_ms":%s}}}}\n\n' $ms;;
esac
END
echo "srv  llama_server: listening on http://127.0.0.1:$p" >&2
{nc} -s 127.0.0.1 -p $p -L sh ./handler &
trap 'kill $!; exit 0' TERM
# Who ends all of a run may reach nc before this shell.
wait $! || [ $? = 143 ]
"""


def write_server(folder: Path, *, before: str = "", during: str = "", nc: str = "nc") -> Path:
    """The script. `before` is done before it listens, `during` before each token, of which ``$i`` is the number.

    `nc` is how toybox's is called.
    """
    program = folder / "llama-server"
    program.write_text(SERVER.format(before=before, during=during, nc=nc))
    return program


def kill_server(note: str) -> str:
    """Words for `during`: they kill the server whose number stands in the file `note`, and no token comes after them."""
    return f"{{ kill -KILL $(cat {note}); while :; do sleep 1; done; }}"


def run_of_server(program: Path) -> RunRequest:
    """What `ready_server` would return for it."""
    return dataclasses.replace(make_request(program), engine="llama 0.0", program="llama-server")
