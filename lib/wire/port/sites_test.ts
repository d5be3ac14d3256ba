import { assertEquals } from "@std/assert";
import { nearSites } from "./sites.ts";

Deno.test("sites: pages of one's own network may call without a key, and pages of the internet may not", () => {
  const sites = nearSites(() => ["Rover.Example"]);
  const may = (page: string | undefined, reached = "http://127.0.0.1:8080") => {
    const fields: [string, string][] = page === undefined ? [] : [["origin", page]];
    return sites({ fields, peer: { kind: "grpc", origin: reached } });
  };
  const near = [
    "http://localhost:3000",
    "https://app.localhost",
    "http://127.0.0.1:5173",
    "http://[::1]:5173",
    "http://192.168.1.7",
    "http://10.0.0.3:8080",
    "http://172.16.0.1",
    "http://172.31.255.1",
    "http://169.254.3.4",
    "http://100.64.0.9",
    "http://[fd00::7]:80",
    "http://[fe80::1]",
    "http://rover.local:8080",
    "http://robot-pc",
    "http://panel.home.arpa",
    "https://rover.example",
    "capacitor://localhost",
  ];
  const far = [
    "https://site.example",
    "http://site.example:8080",
    "http://192.0.2.7",
    "http://172.32.0.1",
    "http://100.128.0.1",
    "http://11.0.0.1",
    "http://10.evil.example",
    "http://10.0.0.1.site.example",
    "http://localhost.site.example",
    "http://[2001:db8::7]",
    "null",
    "nonsense",
    "",
  ];
  assertEquals(near.filter((page) => !may(page)), []);
  assertEquals(far.filter((page) => may(page)), []);
  assertEquals(may(undefined), true);
  // The machine's own page at a public address; a name could have been pointed here by a stranger.
  assertEquals(may("http://192.0.2.7:8080", "http://192.0.2.7:8080"), true);
  assertEquals(may("http://site.example:8080", "http://site.example:8080"), false);
});
