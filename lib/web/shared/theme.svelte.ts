/** Light or dark, as the system or the person wants it. */

const STORED = "svc-theme";

export type Theme = "light" | "dark";

class PageTheme {
  current = $state<Theme>(chosen() ?? preferred());

  constructor() {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      if (!chosen()) this.#show(preferred());
    });
    this.#show(this.current);
  }

  toggle(): void {
    const next = this.current === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(STORED, next);
    } catch {
      // Without storage the choice holds for this page.
    }
    this.#show(next);
  }

  #show(theme: Theme): void {
    this.current = theme;
    document.documentElement.dataset.theme = theme;
  }
}

function preferred(): Theme {
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function chosen(): Theme | undefined {
  try {
    const stored = localStorage.getItem(STORED);
    return stored === "light" || stored === "dark" ? stored : undefined;
  } catch {
    return undefined;
  }
}

export const pageTheme = new PageTheme();
