/** A browser with its cookies, for the pages below `/account/`. */

export interface AccountAnswer {
  readonly status: number;
  readonly value: Record<string, unknown>;
  readonly cookies: readonly string[];
}

export class AccountBrowser {
  readonly cookies = new Map<string, string>();

  constructor(private readonly url: string) {}

  async ask(page: string, body: object = {}, headers: Record<string, string> = {}): Promise<AccountAnswer> {
    const cookie = [...this.cookies].map((pair) => pair.join("=")).join("; ");
    const answer = await fetch(`${this.url}/account/${page}`, {
      method: "POST",
      headers: { "content-type": "application/json", cookie, ...headers },
      body: JSON.stringify(body),
    });
    const cookies = answer.headers.getSetCookie();
    for (const one of cookies) {
      const [pair] = one.split(";", 1);
      this.cookies.set(pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1));
    }
    return { status: answer.status, value: await answer.json(), cookies };
  }

  /** The address of the person who is signed in. */
  async email(): Promise<string | undefined> {
    const { value } = await this.ask("token");
    return (value.account as { readonly email: string } | undefined)?.email;
  }
}
