// The report of a client's program: a JSON object on a line for each column, as soon as it is known.
export async function report(columns) {
  const [baseURL, key, api] = process.argv.slice(2);
  for (const [column, runColumn] of Object.entries(columns(baseURL, key, api))) {
    let result;
    try {
      result = { report: await runColumn() };
    } catch (error) {
      result = { failed: `${error.name}: ${error.message}`, traceback: error.stack };
    }
    console.log(JSON.stringify({ column, ...result }));
  }
}
