// What the server is asked. A token is kept for as long as the tab is open.

const KEY = "partita-token";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const keepToken = (token) => sessionStorage.setItem(KEY, token);

const call = async (path, options = {}) => {
  const token = sessionStorage.getItem(KEY);
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch {
    throw new Refused(0, "The server does not answer. Is partita serve still running?");
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, typeof told.detail === "string" ? told.detail : `The server answered ${answer.status}.`);
};

export const get = async (path, query = {}) => (await call(`${path}?${new URLSearchParams(query)}`)).json();

export const post = async (path, body) => {
  const headers = { "Content-Type": "application/json" };
  return (await call(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
};

// A plain link carries no token, so a report is fetched first.
export const openReport = async (run) => {
  const tab = window.open("", "_blank");
  try {
    const answer = await call(`report?${new URLSearchParams({ run })}`);
    const address = URL.createObjectURL(await answer.blob());
    if (tab) tab.location = address;
    else location.assign(address);
  } catch (problem) {
    if (tab) tab.close();
    throw problem;
  }
};
