// How a client's program tells what it saw: a JSON object on a line for each column, as soon as it is known.
export async function report(columns) {
  const [baseURL, key, api] = process.argv.slice(2);
  for (const [column, look] of Object.entries(columns(baseURL, key, api))) {
    let found;
    try {
      found = { saw: await look() };
    } catch (error) {
      found = { failed: `${error.name}: ${error.message}`, traceback: error.stack };
    }
    console.log(JSON.stringify({ column, ...found }));
  }
}
