/** Command lines: a table of cases for each style, and the help text. */

import { assertEquals, assertThrows } from "@std/assert";
import {
  describeFlags,
  describeProblem,
  type Flag,
  parseFlags,
  sinceMs,
  type Style,
  UsageError,
  wrap,
} from "./flags.ts";

const TABLE = [
  { name: "config", short: "c", type: "string", default: "", value: "FILE", help: "Where to read." },
  { name: "debug", short: "d", type: "bool", default: false, env: "X_DEBUG", help: "Say more." },
  { name: "webrtc", short: "w", type: "bool", default: true, help: "Prefer it." },
  { name: "no-tls", type: "bool", default: false, help: "Plain." },
  { name: "count", short: "n", type: "int", default: 3, env: "X_COUNT", help: "How many." },
  { name: "timeout", short: "t", type: "duration", default: 2000, help: "How long." },
] as const satisfies readonly Flag[];

const DEFAULTS = { config: "", debug: false, webrtc: true, noTls: false, count: 3, timeoutMs: 2000 };

interface Want {
  values?: Partial<typeof DEFAULTS>;
  rest?: string[];
  help?: boolean;
  problems?: string[];
}

function check(style: Style, cases: [args: string[], want: Want][], env: Record<string, string> = {}) {
  for (const [args, want] of cases) {
    const { values, rest, help, problems } = parseFlags(TABLE, style, args, (name) => env[name]);
    const found = { values, rest, help, problems: problems.map(describeProblem) };
    const wanted = {
      values: { ...DEFAULTS, ...want.values },
      rest: want.rest ?? [],
      help: want.help ?? false,
      problems: want.problems ?? [],
    };
    assertEquals(found, wanted, `${style}: ${JSON.stringify(args)} gave ${JSON.stringify(found)}`);
  }
}

Deno.test("parseFlags() parses flags in Go style", () => {
  check("go", [
    [[], {}],
    [["-config", "a"], { values: { config: "a" } }],
    [["--config", "a"], { values: { config: "a" } }],
    [["-config=a"], { values: { config: "a" } }],
    [["--config=a=b"], { values: { config: "a=b" } }],
    [["-config="], {}],
    [["-config", "-debug"], { values: { config: "-debug" } }],
    [["-config", "a", "-config", "b"], { values: { config: "b" } }],
    [["-debug"], { values: { debug: true } }],
    [["-debug=T"], { values: { debug: true } }],
    [["-webrtc=false"], { values: { webrtc: false } }],
    [["-webrtc", "false"], { rest: ["false"] }],
    [["-no-tls"], { values: { noTls: true } }],
    [["-count", "-4", "-timeout=1m30s"], { values: { count: -4, timeoutMs: 90_000 } }],
    [["-debug", "word", "-no-tls"], { values: { debug: true }, rest: ["word", "-no-tls"] }],
    [["-debug", "--", "-no-tls"], { values: { debug: true }, rest: ["-no-tls"] }],
    [["-", "-debug"], { rest: ["-", "-debug"] }],
    [["-h"], { help: true }],
    [["-help"], { help: true }],
    [["--help", "-debug"], { help: true, values: { debug: true } }],
    [["-help=false", "-debug"], { values: { debug: true } }],
    [["-help=maybe"], { problems: ['Flag -help: found "maybe", wanted true or false'] }],
    [["-confg", "a"], { rest: ["a"], problems: ["Unknown flag -confg; did you mean -config?"] }],
    [["--hlep"], { problems: ["Unknown flag -hlep; did you mean -help?"] }],
    [["-zebra"], { problems: ["Unknown flag -zebra; see -help"] }],
    [["-no-webrtc"], { problems: ["Unknown flag -no-webrtc; did you mean -webrtc=false?"] }],
    [["-c", "a"], { rest: ["a"], problems: ["Unknown flag -c; see -help"] }],
    [["---debug"], { problems: ["Malformed flag ---debug"] }],
    [["-=a"], { problems: ["Malformed flag -=a"] }],
    [["-config"], { problems: ["Flag -config needs a value: FILE"] }],
    [["-debug=yes"], { problems: ['Flag -debug: found "yes", wanted true or false'] }],
    [["-count=1.5", "-timeout=5"], {
      problems: [
        'Flag -count: found "1.5", wanted a whole number',
        'Flag -timeout: found "5", wanted a duration such as "10s" or "1m30s"',
      ],
    }],
    [["-count=99999999999999999999"], {
      problems: ['Flag -count: found "99999999999999999999", wanted a whole number'],
    }],
  ]);
});

Deno.test("parseFlags() parses flags in GNU style", () => {
  check("gnu", [
    [["--config", "a"], { values: { config: "a" } }],
    [["--config=a"], { values: { config: "a" } }],
    [["-c", "a"], { values: { config: "a" } }],
    [["-ca"], { values: { config: "a" } }],
    [["-c=a"], { values: { config: "a" } }],
    [["-dc", "a"], { values: { debug: true, config: "a" } }],
    [["-dca"], { values: { debug: true, config: "a" } }],
    [["-d=false"], {}],
    [["-n", "-4"], { values: { count: -4 } }],
    [["--no-webrtc"], { values: { webrtc: false } }],
    [["--webrtc=false"], { values: { webrtc: false } }],
    [["--no-tls", "--no-no-tls"], {}],
    [["--no-tls"], { values: { noTls: true } }],
    [["list", "--debug", "all"], { values: { debug: true }, rest: ["list", "all"] }],
    [["list", "--", "--debug", "-"], { rest: ["list", "--debug", "-"] }],
    [["-debug"], { values: { debug: true } }],
    [["-config=a"], { values: { config: "a" } }],
    [["-help"], { help: true }],
    [["--help"], { help: true }],
    [["-h"], { help: true }],
    [["-dh"], { help: true, values: { debug: true } }],
    [["--h"], { problems: ["Unknown flag --h; see --help"] }],
    [["--confg=a"], { problems: ["Unknown flag --confg; did you mean --config?"] }],
    [["-confg"], { values: { config: "onfg" } }],
    [["-verbose"], { problems: ["Unknown flag -v in -verbose; see --help"] }],
    [["-hlep"], { help: true, problems: ["Unknown flag -l in -hlep; did you mean --help?"] }],
    [["-dx"], { values: { debug: true }, problems: ["Unknown flag -x in -dx; see --help"] }],
    [["--no-config"], { problems: ["Unknown flag --no-config; did you mean --config?"] }],
    [["-t"], { problems: ['Flag -t needs a value: a duration such as "10s" or "1m30s"'] }],
    [["-t", "2h"], { values: { timeoutMs: 7_200_000 } }],
  ]);
});

Deno.test("parseFlags() uses environment variables for flags missing on the command line", () => {
  check("gnu", [
    [[], { values: { debug: true, count: 7 } }],
    [["--no-debug", "--count=1"], { values: { count: 1 } }],
  ], { X_DEBUG: "1", X_COUNT: "7" });
  check("go", [[[], {
    problems: ['Environment variable X_COUNT: found "many", wanted a whole number'],
  }]], { X_DEBUG: "", X_COUNT: "many" });
});

Deno.test("describeFlags() aligns columns within 80 characters", () => {
  assertEquals(
    describeFlags(TABLE, "gnu"),
    `  -c, --config FILE       Where to read.
  -d, --debug             Say more. (env X_DEBUG)
  -w, --webrtc            Prefer it. (default true)
      --no-tls            Plain.
  -n, --count N           How many. (default 3; env X_COUNT)
  -t, --timeout DURATION  How long. (default 2s)
  -h, --help              Print this help and exit.
`,
  );
  const long = {
    name: "a-name-far-too-long-for-the-column",
    type: "string",
    default: "",
    help: "word ".repeat(30),
  };
  const lines = describeFlags([long as Flag, { ...TABLE[1] }], "go").trimEnd().split("\n");
  assertEquals(lines[0], "  -a-name-far-too-long-for-the-column TEXT");
  assertEquals(lines.at(-2), `  -debug${" ".repeat(22)}  Say more. (env X_DEBUG)`);
  assertEquals(lines.filter((line) => line.length > 80), []);
});

Deno.test("wrap() breaks lines between words only", () => {
  assertEquals(wrap("", 10), []);
  assertEquals(wrap("one two  three", 7), ["one two", "three"]);
  assertEquals(wrap("incomprehensibilities", 5), ["incomprehensibilities"]);
});

Deno.test("parseFlags() collects repeated list flags, which replace the environment's list", () => {
  const table = [
    {
      name: "tag",
      short: "t",
      type: "list",
      default: [],
      value: "TAG",
      env: "X_TAG",
      help: "What to learn.",
    },
  ] as const satisfies readonly Flag[];
  const read = (args: string[], env: Record<string, string> = {}) => {
    return parseFlags(table, "gnu", args, (name) => env[name]).values.tag;
  };
  assertEquals(read([]), []);
  assertEquals(read(["--tag", "a,b", "-tc", "word", "--tag="]), ["a,b", "c", ""]);
  assertEquals(read([], { X_TAG: "e" }), ["e"]);
  assertEquals(read(["-t", "a"], { X_TAG: "e" }), ["a"]);
  assertEquals(
    describeFlags(table, "gnu").split("\n")[0],
    "  -t, --tag TAG  What to learn. (may be repeated; env X_TAG)",
  );
});

Deno.test("a time without a zone is in UTC, wherever the computer is, and nothing else is guessed", () => {
  const zone = Deno.env.get("TZ");
  Deno.env.set("TZ", "America/New_York");
  try {
    const at = Date.UTC(2024, 0, 2, 3, 4, 5);
    const times = ["2024-01-02T03:04:05Z", "2024-01-02 03:04:05", "2024-01-02T04:04:05.000+01:00"];
    for (const text of times) assertEquals(sinceMs("since", text, 0), at);
    assertEquals(sinceMs("since", "2024-01-02", 0), Date.UTC(2024, 0, 2));
    assertEquals(sinceMs("since", "2024-02-29T24:00", 0), Date.UTC(2024, 2, 1));
    assertEquals(sinceMs("since", "1m30s", 100_000), 10_000);
    for (
      const text of [
        "",
        "5",
        "-1h",
        "yesterday",
        "2024-13-01",
        "2024-02-30",
        "2023-02-29T00:00Z",
        "2024-01-02T25:00",
        "1 Jan 2024",
        "03:04",
      ]
    ) {
      assertThrows(() => sinceMs("since", text, 0), UsageError, `--since: found "${text}", wanted a length`);
    }
  } finally {
    if (zone === undefined) Deno.env.delete("TZ");
    else Deno.env.set("TZ", zone);
  }
});
